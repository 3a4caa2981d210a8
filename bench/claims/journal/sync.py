"""Topic: `sync` at 2,000/s beside no journal, and beside what one fdatasync of the same bytes takes in the same folder."""

from __future__ import annotations

import os
import statistics
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.journal.loads import Recorded
from bench.claims.report import discarded, median
from flyball.bench.process import on_cpus
from flyball.bench.table import latency

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.tails.stand import Stand

RATE_PER_S, WINDOW_S, REPEATS = 2_000.0, 5.0, 5
OFF, SYNC, PROBE = "off", "sync", "fdatasync"
TIMES = 3
# A commit holds what came while the one before was written: a handful of records of about a kilobyte.
GROUP_BYTES, ROOM_BYTES = 4096, 64 << 20


def measure(stand: Stand) -> None:
    """Three sides in turn: no journal, sync, and the disk alone."""
    recorded = Recorded(stand, RATE_PER_S, WINDOW_S)
    sides: dict[str, Callable[[], object]] = {
        OFF: partial(recorded.window, None),
        SYNC: partial(recorded.window, "{durability: sync}"),
        PROBE: partial(probe, stand),
    }
    windows = stand.in_turn(sides, REPEATS)
    kept = {name: [window.kept() for window in windows[name].values] for name in (OFF, SYNC)}
    stand.keep("windows", {**kept, PROBE: windows[PROBE].values})
    claim = f"card-fraud at {RATE_PER_S:,.0f}/s, sync: p99"
    bar = f"<= without a journal + {TIMES} × fdatasync's p99"
    if doubt := stand.doubt(windows):
        stand.report.not_measured(claim, bar, doubt)
        return
    off, sync = (median([window.result.latency_us.p99 for window in windows[name].values]) for name in (OFF, SYNC))
    disk = median([value["p99_us"] for value in windows[PROBE].values])
    p50 = median([window.result.latency_us.p50 for window in windows[SYNC].values])
    figure = f"{latency(sync)} (without {latency(off)}, fdatasync {latency(disk)}; p50 {latency(p50)})"
    most = off + TIMES * disk
    stand.report.judge(claim, figure, f"{bar} = {latency(most)}; {discarded(windows)}", holds=sync <= most)


def probe(stand: Stand) -> dict[str, float]:
    """Write and fdatasync, one after the other, into a file whose room is already there; on the server's core."""
    took_us: list[float] = []
    path = Path(stand.folder, "probe")
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(file, 0, ROOM_BYTES)
        os.fsync(file)
        end, at, group = time.monotonic() + stand.seconds(WINDOW_S), 0, os.urandom(GROUP_BYTES)
        with on_cpus(stand.server_cpus):
            while time.monotonic() < end:
                os.pwrite(file, group, at)
                began = time.perf_counter()
                os.fdatasync(file)
                took_us.append((time.perf_counter() - began) * 1e6)
                at = (at + GROUP_BYTES) % ROOM_BYTES
    finally:
        os.close(file)
        path.unlink()
    cuts = statistics.quantiles(took_us, n=100)
    return {"p50_us": cuts[49], "p99_us": cuts[98], "count": float(len(took_us))}
