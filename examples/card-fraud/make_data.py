"""Makes card payments from a seed: 1,500 cards, four weeks, and stolen cards that are drained quickly and far away.

Writes made/payments.csv, three weeks to train on: every field, the features as they were at that moment, and whether it
was fraud. made/held_out.csv has the week after, and made/cards.csv what is known of each card. No real people are
involved.
"""

from __future__ import annotations

import csv
from collections import deque
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
MADE = HERE / "made"
SEED = 20261115
CARDS = 1500
DAYS, HELD_OUT_DAYS = 21, 7
HOUR_S, DAY_S = 3600, 86_400
START_S = 1_790_000_000  # 2026-09-21
HELD_OUT_S = START_S + DAYS * DAY_S
COUNTRIES = [line for line in (HERE / "countries.txt").read_text().split() if line != "other"]
MERCHANTS = {5411: 0.34, 5812: 0.2, 5541: 0.12, 5732: 0.08, 5945: 0.07, 4829: 0.04, 7995: 0.03, -1: 0.12}
RISKY = [5732, 4829, 7995]


@dataclass
class Payment:
    """One payment, in the words of the spec."""

    card_id: str
    time: int
    amount: float
    currency: str
    country: str
    mcc: int
    channel: str
    distance_km: float | None
    home: str
    fraud: int
    spent_1h: float = 0.0
    payments_1h: int = 0


def make() -> None:
    """Write the files."""
    random = np.random.default_rng(SEED)
    MADE.mkdir(exist_ok=True)
    homes = {f"c-{number:04d}": str(random.choice(COUNTRIES)) for number in range(CARDS)}
    write("payments.csv", payments(random, homes, START_S, DAYS))
    # Some patient thieves go on for days. Between so few payments a window would start to warm again.
    later = payments(random, homes, HELD_OUT_S, HELD_OUT_DAYS)
    write("held_out.csv", [one for one in later if one.time < HELD_OUT_S + HELD_OUT_DAYS * DAY_S])
    with (MADE / "cards.csv").open("w", newline="") as file:
        cards = csv.writer(file)
        cards.writerow(["card_id", "home_country"])
        cards.writerows(homes.items())


def payments(random: np.random.Generator, homes: dict[str, str], start_s: int, days: int) -> list[Payment]:
    """The payments of all cards in the order of their time, with their features."""
    found = [one for card, home in homes.items() for one in life(random, card, home, start_s, days)]
    found.sort(key=lambda one: one.time)
    add_windows(found)
    return found


def write(name: str, rows: list[Payment]) -> None:
    """One file of payments."""
    with (MADE / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Payment)])
        writer.writeheader()
        writer.writerows(asdict(one) for one in rows)


def life(random: np.random.Generator, card: str, home: str, start_s: int, days: int) -> list[Payment]:
    """A card's ordinary payments, and for one card in twelve (in three weeks) the hours in which a thief has it."""
    habit = random.lognormal(3.2, 0.5)
    moments = start_s + random.random(random.poisson(14 * days / DAYS)) * days * DAY_S
    awake = [int(moment) for moment in moments if random.random() < (0.15 if moment / HOUR_S % 24 < 6 else 1.0)]
    payments = [one for moment in awake for one in outing(random, card, home, moment, habit)]
    if random.random() < days / DAYS / 12:
        begin = start_s + random.random() * days * DAY_S
        payments += stolen(random, card, home, begin, habit)
    return payments


def outing(random: np.random.Generator, card: str, home: str, moment: int, habit: float) -> list[Payment]:
    """One payment, or an afternoon of shopping."""
    count = int(random.integers(3, 9)) if random.random() < 0.02 else 1
    gaps = np.cumsum(random.exponential(500, count)) - 500
    return [ordinary(random, card, home, moment + int(gap), habit) for gap in gaps]


def ordinary(random: np.random.Generator, card: str, home: str, moment: int, habit: float) -> Payment:
    """Near home, for the usual things; now and then on a journey, or for something large."""
    away = random.random() < 0.06
    country = str(random.choice(COUNTRIES)) if away else home
    channel = str(random.choice(["chip", "contactless", "online"], p=[0.25, 0.45, 0.3]))
    mcc = int(random.choice(list(MERCHANTS), p=list(MERCHANTS.values())))
    amount = habit * random.lognormal(0, 0.8) * (8 if random.random() < 0.03 else 1)
    distance = random.exponential(900 if away else 12)
    disputed = random.random() < 0.006  # and never cleared up: labels are not the truth
    return _payment(random, card, home, moment, (amount, country, mcc, channel, distance), fraud=int(disputed))


def stolen(random: np.random.Generator, card: str, home: str, begin: float, habit: float) -> list[Payment]:
    """A burst: sums that can be sold on, one soon after the other. Some thieves are patient and look like anyone."""
    patient = random.random() < 0.3
    moment, payments = begin, []
    for _ in range(int(random.integers(3, 18))):
        moment += random.exponential(6 * HOUR_S if patient else 220)
        country = home if patient or random.random() < 0.3 else str(random.choice(COUNTRIES))
        channel = "online" if random.random() < 0.75 else "chip"
        mcc = int(random.choice(RISKY)) if random.random() < 0.6 else 5411
        amount = habit * random.lognormal(0.4 if patient else 1.7, 0.7)
        distance = random.exponential(40 if patient else 2500)
        payments.append(_payment(random, card, home, int(moment), (amount, country, mcc, channel, distance), fraud=1))
    return payments


def _payment(
    random: np.random.Generator,
    card: str,
    home: str,
    moment: int,
    what: tuple[float, str, int, str, float],
    *,
    fraud: int,
) -> Payment:
    amount, country, mcc, channel, distance = what
    currency = {"GB": "GBP", "US": "USD"}.get(country, "EUR")
    far = None if channel == "online" or random.random() < 0.05 else round(distance, 1)
    return Payment(card, moment, round(min(amount, 90_000.0), 2), currency, country, mcc, channel, far, home, fraud)


def add_windows(payments: list[Payment]) -> None:
    """What the server would have counted at each payment: the card's last hour, this payment included."""
    last: dict[str, deque[Payment]] = {}
    for one in payments:
        recent = last.setdefault(one.card_id, deque())
        while recent and recent[0].time <= one.time - HOUR_S:
            recent.popleft()
        recent.append(one)
        one.spent_1h = round(sum(other.amount for other in recent), 2)
        one.payments_1h = len(recent)


if __name__ == "__main__":
    make()
