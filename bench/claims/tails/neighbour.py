"""Topic: an overloaded 20 ms CNN, and the GBDT beside it on the same core."""

from __future__ import annotations

import gzip
import os
import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, times, us
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.figures import median_over
from bench.claims.tails.loads import run_together
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand
    from flyball.native.load_documents import LoadResult

RUN_MS, RATE_PER_S = 20.0, 2_000.0
CONNECTIONS, CNN_CONNECTIONS = 16, 4
WINDOW_S, REPEATS = 6.0, 7
P50_MAX, P99_MAX = 1.2, 2.0
TICK_US_USUAL = 4_000.0
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
    stand.keep("tick_us", scheduler_tick_us())


def scheduler_tick_us(root: Path = Path("/")) -> float:
    """How long the kernel may leave a thread waiting that should run: one over CONFIG_HZ, as far as the kernel tells it."""
    try:
        text = gzip.decompress((root / "proc/config.gz").read_bytes()).decode()
    except OSError:
        try:
            text = (root / "boot" / f"config-{os.uname().release}").read_text()
        except OSError:
            return TICK_US_USUAL
    found = re.search(r"^CONFIG_HZ=(\d+)$", text, re.MULTILINE)
    return 1e6 / int(found[1]) if found else TICK_US_USUAL


def _p99_over_most(raw: Raw) -> Figure:
    sides, tick_us = raw.windows("windows"), raw["tick_us"]
    alone, beside = (sides.median(name, "latency_us.p99") for name in (ALONE, BESIDE))
    return Figure(beside / max(P99_MAX * alone, tick_us), f"{us(beside)}, alone {us(alone)}, a tick {us(tick_us)}")


TOPIC = Topic(
    "neighbour",
    measure,
    subject=f"GBDT at {RATE_PER_S:,.0f}/s on one core, alone and beside a saturated CNN of {RUN_MS:g} ms on the same server",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        Claim(
            "p50",
            "p50 beside over alone",
            at_most(P50_MAX, times),
            median_over("windows", BESIDE, ALONE, key="latency_us.p50"),
        ),
        Claim(
            "p99",
            f"p99 beside over the larger of {P99_MAX:g} × alone and one scheduler tick",
            at_most(1, times),
            _p99_over_most,
        ),
    ),
)
