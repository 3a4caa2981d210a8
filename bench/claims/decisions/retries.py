"""Topic: a client that repeats every request twice with its idempotency key changes neither windows nor counters."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.decisions import specs
from bench.claims.decisions.asking import Request, ask_all, one_row
from bench.claims.decisions.counts import DECIDED, REPEATED, count
from flyball.decision.decision import Decision

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

Told = tuple[list[list[dict[str, Any]]], dict[str, int]]
"""The answers of each client, and what the server counted."""

CLIENTS, EVENTS, ACCOUNTS, SENT, SEED = 8, 500, 20, 3, 20261115
WARMING = 3


def measure(stand: Stand) -> None:
    """The same events to two servers: to one each once, to the other each three times."""
    path = specs.write(stand.folder / "velocity", specs.VELOCITY, "velocity")
    index = Decision.load(path).bundle().write(path.parent / "snapshot")
    events = EVENTS // 10 if stand.quick else EVENTS
    now = int(time.time())
    groups = [_events(client, events, now) for client in range(CLIENTS)]
    # A window tells nothing before it has seen its whole length of event time.
    warming = [[one_row({"account": "warm", "amount": 1.0, "at": now - before}) for before in (3700, 1850, 60)]]
    with stand.serve_snapshot(index) as server:
        ask_all(server.url, "velocity", warming)
        once = ask_all(server.url, "velocity", groups), _counted(server.url)
    again = [[request for request in group for _ in range(SENT)] for group in groups]
    with stand.serve_snapshot(index) as server:
        ask_all(server.url, "velocity", warming)
        thrice = ask_all(server.url, "velocity", again), _counted(server.url)
    _keep(stand, CLIENTS * events, once, thrice)


def _events(client: int, count: int, now: int) -> list[Request]:
    """Each client has accounts of its own, so that its answers do not depend on the others' order."""
    chance = random.Random(f"{SEED}/{client}")
    rows = [
        {"account": f"{client}-{chance.randrange(ACCOUNTS)}", "amount": float(chance.randrange(1000)), "at": now}
        for _ in range(count)
    ]
    return [one_row(row, key=f"{client}-{number}") for number, row in enumerate(rows)]


def _counted(url: str) -> dict[str, int]:
    return {
        "decided": count(url, DECIDED, "velocity", "outcome").total(),
        "repeated": count(url, REPEATED, "velocity", "decision").total(),
    }


def _keep(stand: Stand, events: int, once: Told, thrice: Told) -> None:
    (first_answers, single), (all_answers, several) = once, thrice
    firsts = [group[::SENT] for group in all_answers]
    wrong = sum(
        one["score"] != other["score"] or one["score"] < 1  # less than itself: its window did not count it
        for group, others in zip(first_answers, firsts, strict=True)
        for one, other in zip(group, others, strict=True)
    )
    strange = sum(
        (answer["id"], answer["score"]) != (group[at - at % SENT]["id"], group[at - at % SENT]["score"])
        or bool(answer.get("repeated")) != bool(at % SENT)
        for group in all_answers
        for at, answer in enumerate(group)
    )
    stand.keep("counts", {"events": events, "once": single, "thrice": several, "wrong": wrong, "strange": strange})


def _wrong(raw: Raw) -> Figure:
    return Figure(raw["counts"]["wrong"], f"of {raw['counts']['events']:,}", "" if raw["counts"]["events"] else "no events")


def _strange(raw: Raw) -> Figure:
    return Figure(raw["counts"]["strange"], f"of {(SENT - 1) * raw['counts']['events']:,}")


def _miscounted(raw: Raw) -> Figure:
    counts = raw["counts"]
    once, thrice, wanted = counts["once"], counts["thrice"], counts["events"] + WARMING
    apart = abs(thrice["decided"] - wanted) + abs(once["decided"] - wanted)
    apart += abs(thrice["repeated"] - (SENT - 1) * counts["events"])
    return Figure(apart, f"{thrice['decided']:,} decided, {WARMING} of them to warm; {thrice['repeated']:,} repeated")


TOPIC = Topic(
    "retries",
    measure,
    subject=f"a decision with two windows; {CLIENTS} clients send every event {SENT} times with its idempotency key",
    sample=f"{CLIENTS * EVENTS:,} events",
    claims=(
        Claim("windows", "scores other than if each event were sent once", none(), _wrong),
        Claim("retries", "retries without the first one's id and score", none(), _strange),
        Claim("counted", "decisions and retries that the server miscounts", none(), _miscounted),
    ),
)
