"""Topic: the median answer time of a single caller, against an echo on the same stack and the bare engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.bars import at_most, times, us
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.skeleton import subjects
from bench.claims.skeleton.subjects import REPEATS, WINDOW_S
from bench.claims.subjects import answer_bytes, echo, flyballd
from flyball.bench.bare_loop import measure_bare
from flyball.bench.process import on_cpus, split_cpus

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

P50 = "p50_us"
OURS, ECHO, BARE = "flyballd", "echo", "bare engine"


def measure(stand: Stand) -> None:
    """The server, an echo with the same body sizes, and ONNX Runtime alone, in turn."""
    gbdt = subjects.gbdt(stand)

    def bare() -> float:
        with on_cpus(split_cpus()[0]):
            return measure_bare(gbdt.path, gbdt.payloads, gbdt.seconds).p50_us

    with flyballd(gbdt, stand.folder) as ours, echo() as mirror:
        path = f"/?reply={answer_bytes(ours, gbdt)}"
        unchecked = gbdt.unchecked
        sides = {
            OURS: lambda: gbdt.load(ours, 1).latency_us.p50,
            ECHO: lambda: unchecked.load(mirror, 1, path=path).latency_us.p50,
            BARE: bare,
        }
        stand.keep(P50, stand.in_turn(sides, REPEATS))


def _factor(raw: Raw) -> Figure:
    sides = raw.windows(P50)
    ours, echoed, bare = (sides.median(name) for name in (OURS, ECHO, BARE))
    return Figure(ours / (echoed + bare), f"{us(ours)}, {us(echoed)} + {us(bare)}")


TOPIC = Topic(
    "one-connection",
    measure,
    subject="GBDT of 300 trees, JSON, 1 connection, closed loop",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        Claim("p50", "p50 over the sum of an echo's on the same stack and the bare engine's", at_most(1.6, times), _factor),
    ),
)
