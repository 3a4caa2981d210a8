"""Topic: bursts of ten times the usual rate for 200 ms, three times the server's capacity."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, at_most, share, us
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.figures import median_of
from bench.claims.tails.curve import CONNECTIONS, capacity_per_s
from bench.claims.tails.loads import time_line
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    stand.keep("capacity_per_s", capacity)
    stand.keep("deadline_ms", DEADLINE_MS)
    stand.keep("windows", windows)
    stand.keep("time_lines", [time_line(result, DEADLINE_MS) for result in windows["bursts"].values])


def accepted_in_bursts(lines: Sequence[Mapping[str, float]]) -> float:
    """Right answers in time to a burst's requests, the mean burst of a window; intervals are as long as a burst."""
    bursts = [line["in_time"] for line in lines if is_burst(line)]
    return sum(bursts) / len(bursts) if bursts else 0.0


def is_burst(line: Mapping[str, float]) -> bool:
    """Whether an interval is a burst: each period begins with one."""
    return (line["start_s"] + BURST_S / 2) % EVERY_S < BURST_S


def _accepted(raw: Raw) -> Figure:
    raw.windows("windows").values("bursts")  # enough of them
    accepted, capacity = median(accepted_in_bursts(lines) for lines in raw["time_lines"]) / BURST_S, raw["capacity_per_s"]
    return Figure(accepted / capacity, f"{accepted:,.0f}/s of {capacity:,.0f}/s")


TOPIC = Topic(
    "bursts",
    measure,
    subject=f"CNN of {RUN_MS:g} ms, bursts of {TIMES:g} × the usual rate for {BURST_S * 1e3:.0f} ms every {EVERY_S:g} s, "
    f"which is {USUAL:.0%} of capacity, the deadline {DEADLINE_MS} ms",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s",
    claims=(
        Claim(
            "p99",
            "p99 of accepted requests, the deadline",
            at_most(DEADLINE_MS * 1e3, us),
            median_of("windows", "bursts", "latency_us.p99"),
        ),
        Claim("accepted", "accepted in bursts, of capacity", at_least(ACCEPTED_MIN, share), _accepted),
    ),
)
