"""Topic: CPU time of two lanes while one gRPC connection carries everything."""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, share
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.ratios import LANES_APART_MAX
from bench.claims.skeleton import subjects
from bench.claims.skeleton.subjects import REPEATS, WINDOW_S
from bench.claims.subjects import flyballd

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

STREAMS = 32
SPENT = "lane_cpu_s"
LANE_CPU_S_MIN = 0.1  # the kernel counts in ticks of 10 ms


def measure(stand: Stand) -> None:
    """Two lanes need two cores; without more, the generator shares them, unpinned."""
    mlp, cpus = subjects.mlp(stand), sorted(os.sched_getaffinity(0))

    def spent() -> list[float]:
        before = ours.thread_cpu_s()
        mlp.load(ours, 1, protocol="grpc", streams=STREAMS, cpus=cpus[2:] or None)
        after = ours.thread_cpu_s()
        return [after.get(lane, 0.0) - before.get(lane, 0.0) for lane in ("lane-0", "lane-1")]

    with flyballd(mlp, stand.folder, flags=["--lanes", "2"], cpus=cpus[:2]) as ours:
        stand.keep(SPENT, stand.in_turn({"lanes": spent}, REPEATS))


def lanes_apart(first_s: float, second_s: float) -> float:
    """The difference of two lanes' CPU times as a share of the larger; idle lanes prove nothing."""
    larger = max(first_s, second_s)
    return abs(first_s - second_s) / larger if larger >= LANE_CPU_S_MIN else 1.0


def _apart(raw: Raw) -> Figure:
    pairs = raw.windows(SPENT).values("lanes")
    first, second = (statistics.median(pair[lane] for pair in pairs) for lane in (0, 1))
    return Figure(statistics.median(lanes_apart(*pair) for pair in pairs), f"{first:.2f} s and {second:.2f} s")


TOPIC = Topic(
    "lanes",
    measure,
    subject=f"small MLP, one gRPC connection, {STREAMS} streams, two lanes on two cores",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s",
    claims=(Claim("apart", "CPU times of the lanes apart", at_most(LANES_APART_MAX, share), _apart),),
)
