"""Topic: 10,000 versions and 1,000,000 events on SQLite. Lists, status and time travel stay fast."""

from __future__ import annotations

import gc
import random
import time
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.claims.bars import below, ms, none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.registry.history import BEGUN, Size, write
from flyball.registry.acts.registry import Registry
from flyball.registry.events.event import time_of
from flyball.registry.events.verify import verify
from flyball.registry.home import Home
from flyball.registry.tables.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.tails.stand import Stand

SIZE, QUICK_SIZE = Size(500, 10_000, 1_000_000), Size(50, 1_000, 20_000)
BAR_MS, TURNS, SEED = 200.0, 20, 20261116


def measure(stand: Stand) -> None:
    """Make the history, then ask."""
    size = QUICK_SIZE if stand.quick else SIZE
    home = Home.create(stand.folder / "scale")
    database = Database.open(home.database_url())
    begun = time.monotonic()
    last = write(database, size, SEED, stand.tell)
    stand.keep("made_s", round(time.monotonic() - begun, 1))
    gc.collect()
    gc.freeze()  # who asks has not written a million events before: Python's collector must not go through what that left
    chance = random.Random(SEED)

    def some_time() -> Any:
        return time_of(chance.randrange(BEGUN, last))

    names = [f"model-{chance.randrange(size.names):05}" for _ in range(TURNS)]
    asked: dict[str, Callable[[Registry], object]] = {
        "list, 100 names": lambda registry: registry.names(),
        "list, every name": lambda registry: registry.names(limit=size.names),
        "status of everything": lambda registry: registry.status(),
        "status of a name": lambda registry: registry.status(names[0]),
        "at a time, everything": lambda registry: registry.at(some_time()),
        "at a time, a name": lambda registry: registry.at(some_time(), names[0]),
        "at the first second": lambda registry: registry.at(time_of(BEGUN) + timedelta(seconds=1)),
        "newest 100 events of a name": lambda registry: registry.handle.log.latest(names[0]),
    }
    for question, ask in asked.items():
        stand.keep(question, [_timed(home, ask) for _ in range(stand.repeats(TURNS))])
    begun = time.monotonic()
    verdict = verify(database)
    took = time.monotonic() - begun
    database.close()
    findings = [str(finding) for finding in verdict.findings]
    stand.keep("verify", {"took_s": took, "events": verdict.events, "wanted": size.events, "findings": findings[:10]})


def _timed(home: Home, ask: Callable[[Registry], object]) -> float:
    """Milliseconds from opening the registry to the answer: what every command pays."""
    begun = time.perf_counter()
    registry = Registry.open(home)
    try:
        ask(registry)
        return (time.perf_counter() - begun) * 1e3
    finally:
        registry.close()


def _slowest(question: str) -> Callable[[Raw], Figure]:
    def figure(raw: Raw) -> Figure:
        times = raw[question]
        return Figure(max(times), f"median {median(times):.0f} ms of {len(times)}")

    return figure


def _findings(raw: Raw) -> Figure:
    found = raw["verify"]
    fault = "" if found["events"] >= found["wanted"] else f"{found['wanted']:,} were written"
    told = f"{found['events']:,} events and the tables in {found['took_s']:.0f} s"
    return Figure(len(found["findings"]), told + "".join(f": {one}" for one in found["findings"][:1]), fault)


_QUESTIONS = {
    "list-100-names": "list, 100 names",
    "list-every-name": "list, every name",
    "status-of-everything": "status of everything",
    "status-of-a-name": "status of a name",
    "at-a-time-everything": "at a time, everything",
    "at-a-time-a-name": "at a time, a name",
    "at-the-first-second": "at the first second",
    "newest-100-events-of-a-name": "newest 100 events of a name",
}
TOPIC = Topic(
    "scale",
    measure,
    subject=f"SQLite, {SIZE.versions:,} versions of {SIZE.names:,} names, {SIZE.events:,} events; a query opens it",
    sample=f"{TURNS} queries of each kind, the slowest counts",
    claims=(
        *(
            Claim(name, f"the slowest: {question}", below(BAR_MS, ms), _slowest(question))
            for name, question in _QUESTIONS.items()
        ),
        Claim("verify", "findings of `verify`", none(), _findings, sample="once"),
    ),
)
