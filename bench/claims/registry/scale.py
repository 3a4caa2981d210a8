"""Topic: 10,000 versions and 1,000,000 events on SQLite. Lists, status and time travel stay fast."""

from __future__ import annotations

import gc
import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from bench.claims.registry.history import BEGUN, Size, write
from bench.claims.report import median
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
    title = f"{size.versions:,} versions of {size.names:,} names, {size.events:,} events on SQLite"
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
        _record(stand, f"{title}: {question}", [_timed(home, ask) for _ in range(stand.repeats(TURNS))])
    begun = time.monotonic()
    verdict = verify(database)
    took = time.monotonic() - begun
    database.close()
    stand.keep("verify_s", round(took, 1))
    figure = f"{verdict.events:,} events and the tables in {took:.0f} s, {len(verdict.findings)} findings"
    stand.report.record(f"{title}: verify", figure, "no findings", holds=verdict.holds and verdict.events >= size.events)


def _timed(home: Home, ask: Callable[[Registry], object]) -> float:
    """Milliseconds from opening the registry to the answer: what every command pays."""
    begun = time.perf_counter()
    registry = Registry.open(home)
    try:
        ask(registry)
        return (time.perf_counter() - begun) * 1e3
    finally:
        registry.close()


def _record(stand: Stand, claim: str, times: list[float]) -> None:
    stand.keep(claim, times)
    figure = f"{median(times):.0f} ms, at most {max(times):.0f} ms of {len(times)}"
    stand.report.record(claim, figure, f"every one < {BAR_MS:.0f} ms", holds=max(times) < BAR_MS)
