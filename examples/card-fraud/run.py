"""The whole example: data, training, features and a running decision, then a few payments. `python run.py`

What is there already is kept; delete made/ to begin anew.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import make_data
import train

import flyball

HERE = Path(__file__).resolve().parent
MADE = HERE / "made"


def main() -> None:
    """Make what is missing, serve in this process, decide, stop."""
    if not (MADE / "payments.csv").exists():
        print("making payments …")
        make_data.make()
    if not (MADE / "card-fraud.trees.json").exists():
        print(f"training {train.TREES} trees …")
        train.train()
    if not (MADE / "cards.redb").exists():
        push_cards()
    with flyball.Decision.load(HERE / "card-fraud.yaml") as fraud:
        for title, payment in payments():
            show(title, fraud.decide(payment))


def push_cards() -> None:
    """What is known of each card, into the embedded store that the feature `home` is looked up in."""
    source = ["--store", str(MADE / "cards.redb"), "--set", "cards", "--key-column", "card_id"]
    subprocess.run([sys.executable, "-m", "flyball", "features", "push", str(MADE / "cards.csv"), *source], check=True)


def payments() -> list[tuple[str, dict[str, object]]]:
    """A quiet hour first, so that the windows know what an hour is; then one payment of each kind."""
    now = datetime(2026, 11, 11, 15, tzinfo=UTC).timestamp()
    with (MADE / "cards.csv").open() as file:
        cards = {row["home_country"]: row["card_id"] for row in csv.DictReader(file)}
    usual: dict[str, object] = {"currency": "EUR", "mcc": 5411, "channel": "contactless", "distance_km": 2.0}
    german, spanish, french = ({**usual, "card_id": cards[home], "country": home} for home in ("DE", "ES", "FR"))
    burst = [
        (
            f"stolen card, payment {number + 1}",
            {**spanish, "time": now - 600 + 30 * number, "amount": 180.0 + 40 * number, "channel": "online", "mcc": 7995},
        )
        for number in range(3)
    ]
    for _, payment in burst:
        del payment["distance_km"]
    return [
        ("long before", {**french, "time": now - 5400, "amount": 8.5}),
        ("not so long before", {**french, "time": now - 2700, "amount": 12.0}),
        ("groceries", {**german, "time": now - 900, "amount": 31.9}),
        *burst,
        ("far from home", {**german, "time": now, "amount": 6400.0, "country": "US", "currency": "USD"}),
        ("unknown card", {**french, "time": now, "amount": 20.0, "card_id": "nobody's"}),
    ]


def show(title: str, decided: flyball.Decided) -> None:
    """One decision in a few lines."""
    score = "no score" if decided.score is None else f"{decided.score:.3f}"
    print(f"{title:<24} {decided.outcome} ({score})")
    for reason in decided.reasons:
        pushed = "" if reason.contribution is None else f"   {reason.contribution:+.2f} by {reason.field}"
        print(f"    {reason.code}  {reason.text or reason.field}{pushed}")


if __name__ == "__main__":
    main()
