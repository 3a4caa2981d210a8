"""Topic: 1,000 times `kill -9` under load and power loss. Acknowledged records survive, and the log verifies."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from bench.claims.journal import cycles
from bench.claims.report import median
from bench.claims.subjects import FLYBALLD, need

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

CYCLES, QUICK_CYCLES, SEED = 1_000, 10, 20261116


def measure(stand: Stand, count: int = CYCLES) -> None:
    """All cycles, then what they showed."""
    folder = stand.folder / "crash"
    folder.mkdir()
    count = QUICK_CYCLES if stand.quick else count
    found = cycles.crash(need(FLYBALLD), folder, count, SEED, stand.tell, cpus=stand.server_cpus)
    stand.keep("found", {part.name: getattr(found, part.name) for part in fields(found)})
    title = f"{found.cycles:,} kills after {cycles.ALIVE_MS[0]} to {cycles.ALIVE_MS[1]} ms under load"
    synced, buffered = (found.acknowledged[name] for name in (cycles.SYNC, cycles.BUFFERED))
    figure = f"{synced:,} sync and {buffered:,} buffered, {len(found.wrong)} faults" + "".join(found.wrong[:1])
    bar = "every sync one is there, the chain verifies"
    stand.report.record(f"{title}: acknowledged", figure, bar, holds=not found.wrong and synced > 0 and buffered > 0)
    figure = f"{found.lost_buffered:,} of {buffered:,}, the oldest {found.oldest_lost_s * 1e3:.0f} ms before the last"
    bar = f"within the exported window, {found.window_s * 1e3:.0f} ms"
    holds = found.window_s > 0 and found.oldest_lost_s <= found.window_s
    stand.report.record(f"{title}: buffered that were lost", figure, bar, holds=holds)
    usual, most = median(found.started_s), max(found.started_s)
    figure = f"{usual * 1e3:.0f} ms, at most {most * 1e3:.0f} ms; {found.recovered:,} tails cut"
    stand.report.record(f"{title}: it starts again", figure, "every time", holds=len(found.started_s) > found.cycles)
