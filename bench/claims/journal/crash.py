"""Topic: 1,000 times `kill -9` under load and power loss. Acknowledged records survive, and the log verifies."""

from __future__ import annotations

from dataclasses import fields
from statistics import median
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, none, times
from bench.claims.claim import Change, Claim, Figure, Raw, Topic
from bench.claims.figures import ratio
from bench.claims.journal import cycles
from bench.claims.subjects import FLYBALLD, need

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

FOUND = "found"
CYCLES, QUICK_CYCLES, SEED = 1_000, 10, 20261116


def measure(stand: Stand, count: int = CYCLES) -> None:
    """All cycles, then what they showed."""
    folder = stand.folder / "crash"
    folder.mkdir()
    count = QUICK_CYCLES if stand.quick else count
    found = cycles.crash(
        need(FLYBALLD), folder, count, SEED, stand.tell, cpus=stand.server_cpus, long_every=cycles.LONG_EVERY
    )
    stand.keep(FOUND, {part.name: getattr(found, part.name) for part in fields(found)})


def _lost(raw: Raw) -> Figure:
    found = raw[FOUND]
    synced, buffered = (found["acknowledged"].get(name, 0) for name in (cycles.SYNC, cycles.BUFFERED))
    told = f"{synced:,} sync and {buffered:,} buffered acknowledged in {found['cycles']:,} cycles"
    fault = "" if synced and buffered else "nothing was acknowledged"
    fault = fault or ("" if found["wiped_bytes"] else "no power loss took anything")
    return Figure(len(found["wrong"]), told, found["wrong"][0] if found["wrong"] else fault)


def _oldest(raw: Raw) -> Figure:
    found = raw[FOUND]
    told = f"{found['lost_buffered']:,} of {found['acknowledged'].get(cycles.BUFFERED, 0):,} lost, the oldest answered "
    told += f"{found['oldest_lost_s'] * 1e3:.0f} ms before the last, window {found['window_s'] * 1e3:.0f} ms"
    fault = "" if found["window_s"] > 0 else "the server exports no window"
    fault = fault or ("" if found["outlived"] else "no server lived longer than the window")
    return Figure(ratio(found["oldest_lost_s"], found["window_s"]), told, fault)


def _not_started(raw: Raw) -> Figure:
    found, started = raw[FOUND], raw[FOUND]["started_s"]
    told = f"{median(started) * 1e3:.0f} ms, at most {max(started) * 1e3:.0f} ms; {found['recovered']:,} tails cut"
    return Figure(max(found["cycles"] + 1 - len(started), 0), told)


_CHANGES = (
    Change(
        "subject",
        "`kill -9` after 50 to 500 ms under load; half of the cycles lose pages",
        "At default settings the window is 2 s, and no server lived so long: no loss could be too old.",
    ),
)
CLAIMS = (
    Claim("sync", "faults: `sync` decisions lost, chains that do not verify", none(), _lost, changes=_CHANGES),
    Claim(
        "buffered",
        "lost `buffered` decisions: the oldest, over the exported window",
        at_most(1, times),
        _oldest,
        changes=_CHANGES,
    ),
    Claim("starts", "cycles after which the server does not start", none(), _not_started, changes=_CHANGES),
)
TOPIC = Topic(
    "crash",
    measure,
    subject="default settings, `kill -9` under load after {} to {} ms, every {}th after {:g} to {:g} s of `buffered` alone; "
    "half of the cycles lose what was written and not synced".format(
        *cycles.ALIVE_MS, cycles.LONG_EVERY, *(limit / 1e3 for limit in cycles.LONG_MS)
    ),
    sample=f"{CYCLES:,} cycles",
    claims=CLAIMS,
)
