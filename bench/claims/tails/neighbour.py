"""Topic: an overloaded 20 ms CNN, and the GBDT beside it on the same core."""

from __future__ import annotations

import gzip
import os
import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.report import discarded, median
from bench.claims.tails.loads import run_together
from bench.claims.tails.stand import raw
from flyball.bench.table import latency
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
    tick_us = scheduler_tick_us()
    stand.keep("windows", raw(windows))
    stand.keep("tick_us", tick_us)
    title = f"GBDT at {RATE_PER_S:,.0f}/s beside a saturated CNN of {RUN_MS:g} ms"
    claims = [(f"{title}: p50 over alone", f"<= {P50_MAX:g} times")]
    claims.append((f"{title}: p99", f"<= {P99_MAX:g} × alone, or a tick of {latency(tick_us)}"))
    if doubt := stand.doubt(windows):
        for claim, bar in claims:
            stand.report.not_measured(claim, bar, doubt)
        return
    p50, p99 = (
        {name: median([getattr(value.latency_us, which) for value in found.values]) for name, found in windows.items()}
        for which in ("p50", "p99")
    )
    note = discarded(windows)
    figure = f"{p50[BESIDE] / p50[ALONE]:.2f} times ({latency(p50[BESIDE])}, alone {latency(p50[ALONE])})"
    stand.report.record(claims[0][0], figure, f"{claims[0][1]}, {note}", holds=p50[BESIDE] <= P50_MAX * p50[ALONE])
    most = max(P99_MAX * p99[ALONE], tick_us)
    figure = f"{latency(p99[BESIDE])}, alone {latency(p99[ALONE])}"
    stand.report.record(claims[1][0], figure, f"{claims[1][1]}, {note}", holds=p99[BESIDE] <= most)


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
