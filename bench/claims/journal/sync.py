"""Topic: `sync` at 2,000/s against no journal, the journal's own fdatasync, and the disk's limit.

A disk that stops for a tenth of a second now and then is one call of a thousand, and two requests of a hundred: the p99 of
calls does not show it. So the disk is also asked alone, and what requests would wait if every commit took them all is
told beside it.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.claims.bars import at_most, times, us
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.journal.loads import Recorded
from flyball.bench.process import on_cpus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.claims.tails.stand import Stand

RATE_PER_S, WINDOW_S, REPEATS = 2_000.0, 5.0, 7
OFF, SYNC, DISK = "off", "sync", "disk alone"
TIMES, WINDOWS = 3, "windows"
# A commit holds what came while the one before was written: a handful of records of about a kilobyte.
GROUP_BYTES, ROOM_BYTES = 4096, 64 << 20


def measure(stand: Stand) -> None:
    """No journal, sync, and the disk alone, in turn."""
    recorded = Recorded(stand, RATE_PER_S, WINDOW_S)
    sides: dict[str, Callable[[], object]] = {
        OFF: partial(recorded.window, None),
        SYNC: partial(recorded.window, "{durability: sync}"),
        DISK: partial(disk_alone, stand),
    }
    stand.keep(WINDOWS, stand.in_turn(sides, REPEATS))


def disk_alone(stand: Stand) -> float:
    """The p99 in µs of what requests would wait for commits that follow each other and cost nothing but the disk's time."""
    ends: list[float] = []
    path = Path(stand.folder, "disk")
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(file, 0, ROOM_BYTES)
        os.fsync(file)
        end, at, group = time.perf_counter() + stand.seconds(WINDOW_S), 0, os.urandom(GROUP_BYTES)
        with on_cpus(stand.server_cpus):
            while time.perf_counter() < end:
                os.pwrite(file, group, at)
                os.fdatasync(file)
                ends.append(time.perf_counter())
                at = (at + GROUP_BYTES) % ROOM_BYTES
    finally:
        os.close(file)
        path.unlink()
    return perfect_p99_us(ends)


def perfect_p99_us(ends: Sequence[float]) -> float:
    """Requests come evenly; each waits for the end of the commit after the one that is under way."""
    arrivals = np.arange(ends[0], ends[-2], 1 / RATE_PER_S)
    kept = np.searchsorted(ends, arrivals, side="right") + 1
    waited = np.asarray(ends)[np.minimum(kept, len(ends) - 1)] - arrivals
    return float(np.quantile(waited, 0.99)) * 1e6


def _over_fdatasync(raw: Raw) -> Figure:
    sides = raw.windows(WINDOWS)
    off, sync = (sides.median(name, "result.latency_us.p99") for name in (OFF, SYNC))
    calls, least = sides.median(SYNC, "sync_p99_us"), off + sides.median(DISK)
    told = f"{us(sync)}, without {us(off)}, fdatasync {us(calls)}; p50 {us(sides.median(SYNC, 'result.latency_us.p50'))}; "
    return Figure((sync - off) / calls, f"{told}a perfect commit on this disk {us(least)}")


TOPIC = Topic(
    "sync",
    measure,
    subject=f"card-fraud at {RATE_PER_S:,.0f}/s, open loop, `sync` beside no journal; the disk alone",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        Claim(
            "p99",
            "p99 over that without a journal, in p99s of the journal's own fdatasync",
            at_most(TIMES, times),
            _over_fdatasync,
            shortfall="The disk stalls for about 100 ms at times: one call of a thousand, two requests of a hundred.",
        ),
    ),
)
