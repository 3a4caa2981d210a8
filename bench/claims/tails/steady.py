"""Topic: 5,000 requests per second of the MLP in an open loop, against an echo at the same rate."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, us
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.subjects import answer_bytes
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
    stand.keep("windows", windows)


def _p99_over_echo(raw: Raw) -> Figure:
    sides = raw.windows("windows")
    p99, echo = (sides.median(name, "latency_us.p99") for name in (OURS, ECHO))
    p50 = {name: latency(sides.median(name, "latency_us.p50")) for name in (OURS, ECHO)}
    answered = min(window["answered"] / window["sent"] for window in sides.values(OURS))
    fault = "" if answered >= ANSWERED_MIN else f"only {answered:.1%} answered"
    return Figure(p99 - echo, f"{latency(p99)}, echo {latency(echo)}; p50 {p50[OURS]}, {p50[ECHO]}", fault)


TOPIC = Topic(
    "steady",
    measure,
    subject=f"MLP of 12 MB at {RATE_PER_S:,.0f}/s, open loop, Poisson, {CONNECTIONS} connections; an echo at the same rate",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(Claim("p99", "p99 over the echo's", at_most(OVER_ECHO_US, us, f"{ANSWERED_MIN:.1%} answered"), _p99_over_echo),),
)
