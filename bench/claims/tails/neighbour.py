"""Topic: an overloaded 20 ms CNN, and the GBDT beside it on the same core."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, times
from bench.claims.claim import Change, Claim, Topic
from bench.claims.figures import median_over
from bench.claims.ratios import P50_BESIDE_MAX
from bench.claims.tails.loads import run_together
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand
    from flyball.native.load_documents import LoadResult

RUN_MS, RATE_PER_S = 20.0, 2_000.0
CONNECTIONS, CNN_CONNECTIONS = 16, 4
WINDOW_S, REPEATS = 6.0, 7
P99_MAX = 2.0
ALONE, BESIDE = "alone", "beside the CNN"


def measure(stand: Stand) -> None:
    """The GBDT at one rate, alone and beside."""
    cnn, fraud, seeds = stand.cnn("cnn", RUN_MS), stand.fraud, count(1)
    with stand.serve(fraud, cnn) as server:

        def window(*, beside: bool) -> LoadResult:
            seconds = stand.seconds(WINDOW_S)
            arrivals = Arrivals(kind="poisson", rate_per_s=RATE_PER_S, seed=next(seeds))
            plans = [(fraud.plan(server, CONNECTIONS, arrivals=arrivals, duration_s=seconds), fraud.payloads)]
            if beside:
                # Longer than the GBDT's window, so that the CNN is saturated to its end.
                plans.append((cnn.plan(server, CNN_CONNECTIONS, duration_s=seconds + 1.0), cnn.payloads))
            found = run_together(plans)
            for result in found:
                if result.failed or result.mismatched:
                    raise FlyballError(f"{result.failed} failed, {result.mismatched} differ: {result.first_problem}")
            return found[0]

        windows = stand.in_turn({ALONE: lambda: window(beside=False), BESIDE: lambda: window(beside=True)}, REPEATS)
    stand.keep("windows", windows)


TOPIC = Topic(
    "neighbour",
    measure,
    subject=f"GBDT at {RATE_PER_S:,.0f}/s on one core, alone and beside a saturated CNN of {RUN_MS:g} ms on the same server",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        Claim(
            "p50",
            "p50 beside over alone",
            at_most(P50_BESIDE_MAX, times),
            median_over("windows", BESIDE, ALONE, key="latency_us.p50"),
        ),
        Claim(
            "p99",
            "p99 beside over alone",
            at_most(P99_MAX, times),
            median_over("windows", BESIDE, ALONE, key="latency_us.p99"),
            changes=(
                Change(
                    "bar", "<= 1 times", "It was over the larger of 2 × alone and a scheduler tick: 4 ms hardly ever fail."
                ),
            ),
        ),
    ),
)
