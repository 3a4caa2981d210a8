"""Topic: 5,000 requests per second of the MLP in an open loop, against an echo at the same rate."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from bench.claims.report import discarded, median
from bench.claims.subjects import answer_bytes
from bench.claims.tails.stand import raw
from flyball.bench.overhead import start_echo
from flyball.bench.table import latency
from flyball.native.load_documents import Arrivals, LoadResult

if TYPE_CHECKING:
    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

RATE_PER_S, WINDOW_S, REPEATS, CONNECTIONS = 5_000.0, 20.0, 5, 32
OVER_ECHO_US = 4_000.0
ANSWERED_MIN = 0.999
OURS, ECHO = "flyballd", "echo"


def measure(stand: Stand) -> None:
    """Median p99 of five windows against the echo's."""
    claim = f"MLP 12 MB, {RATE_PER_S:,.0f}/s open loop: p99"
    bar = f"<= the echo's + {latency(OVER_ECHO_US)}"
    seeds = count(1)

    def window(subject: Subject, server: Process, **changes: object) -> LoadResult:
        arrivals = Arrivals(kind="poisson", rate_per_s=RATE_PER_S, seed=next(seeds))
        given = {"arrivals": arrivals, "duration_s": stand.seconds(WINDOW_S), **changes}
        return subject.load(server, CONNECTIONS, **given)

    with stand.serve(stand.mlp) as ours:
        reply = answer_bytes(ours, stand.mlp)
        with start_echo(stand.server_cpus, "--reply-bytes", reply) as echo:
            mirror = stand.mlp.unchecked
            sides = {OURS: lambda: window(stand.mlp, ours), ECHO: lambda: window(mirror, echo, path="/")}
            windows = stand.in_turn(sides, REPEATS)
    stand.keep("windows", raw(windows))
    if doubt := stand.doubt(windows):
        stand.report.not_measured(claim, bar, doubt)
        return
    p99 = {name: median([value.latency_us.p99 for value in found.values]) for name, found in windows.items()}
    p50 = {name: median([value.latency_us.p50 for value in found.values]) for name, found in windows.items()}
    answered = min(value.answered / value.sent for value in windows[OURS].values)
    figure = f"{latency(p99[OURS])}, echo {latency(p99[ECHO])}; p50 {latency(p50[OURS])}, {latency(p50[ECHO])}"
    holds = p99[OURS] <= p99[ECHO] + OVER_ECHO_US and answered >= ANSWERED_MIN
    told = figure if answered >= ANSWERED_MIN else f"{figure}; only {answered:.1%} answered"
    stand.report.record(claim, told, f"{bar}, {discarded(windows)}", holds=holds)
