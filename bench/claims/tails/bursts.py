"""Topic: bursts of ten times the usual rate for 200 ms, three times the server's capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.report import discarded, median
from bench.claims.tails.curve import CONNECTIONS, capacity_per_s
from bench.claims.tails.loads import time_line
from bench.claims.tails.stand import raw
from flyball.bench.table import latency
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand
    from flyball.native.load_documents import LoadResult

RUN_MS, DEADLINE_MS = 1.6, 50
TIMES, BURST_S, EVERY_S = 10.0, 0.2, 2.0
USUAL = 0.3  # of capacity, so that a burst is three times capacity
WINDOW_S, REPEATS = 20.0, 3
ACCEPTED_MIN = 0.80


def measure(stand: Stand) -> None:
    """The accepted keep their deadline, and are nearly all that could be served."""
    slow = stand.cnn("slow", RUN_MS)
    where = f"{RUN_MS:g} ms a run, bursts of {TIMES:g} × for {BURST_S * 1e3:.0f} ms"
    claims = [(f"{where}: p99 of accepted", f"<= {DEADLINE_MS} ms, the deadline")]
    claims.append((f"{where}: accepted in bursts", f">= {ACCEPTED_MIN:.0%} of capacity"))
    with stand.serve(slow) as server:
        capacity = capacity_per_s(stand, slow, server)
        usual = USUAL * capacity
        arrivals = Arrivals(kind="burst", rate_per_s=usual, burst_per_s=TIMES * usual, burst_s=BURST_S, every_s=EVERY_S)

        def window() -> LoadResult:
            return slow.load_unchecked(
                server,
                CONNECTIONS,
                arrivals=arrivals,
                duration_s=EVERY_S if stand.quick else WINDOW_S,
                interval_s=BURST_S,
                deadline_ms=DEADLINE_MS,
                timeout_ms=1000,
            )

        windows = stand.in_turn({"bursts": window}, REPEATS)
    results = windows["bursts"].values
    lines = [time_line(result, DEADLINE_MS) for result in results]
    stand.keep("capacity_per_s", capacity)
    stand.keep("deadline_ms", DEADLINE_MS)
    stand.keep("windows", raw(windows))
    stand.keep("time_lines", lines)
    if doubt := stand.doubt(windows):
        for claim, bar in claims:
            stand.report.not_measured(claim, bar, doubt)
        return
    note = discarded(windows)
    p99 = median([result.latency_us.p99 for result in results])
    stand.report.record(claims[0][0], latency(p99), f"{claims[0][1]}, {note}", holds=p99 <= DEADLINE_MS * 1e3)
    accepted = median([accepted_in_bursts(line) for line in lines]) / BURST_S
    figure = f"{accepted / capacity:.0%} ({accepted:,.0f}/s of {capacity:,.0f}/s)"
    stand.report.record(claims[1][0], figure, f"{claims[1][1]}, {note}", holds=accepted >= ACCEPTED_MIN * capacity)


def accepted_in_bursts(lines: list[dict[str, float]]) -> float:
    """Right answers in time to a burst's requests, the mean burst of a window; intervals are as long as a burst."""
    bursts = [line["in_time"] for line in lines if is_burst(line)]
    return sum(bursts) / len(bursts) if bursts else 0.0


def is_burst(line: dict[str, float]) -> bool:
    """Whether an interval is a burst: each period begins with one."""
    return (line["start_s"] + BURST_S / 2) % EVERY_S < BURST_S
