"""Topic: scaling with cores, on a machine with sixteen; bench.claims.tails.pack packs it for one that builds nothing."""

from __future__ import annotations

import os
from itertools import count
from statistics import median
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, below, share, times, us
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.figures import median_over
from bench.claims.ratios import LANES_APART_MAX
from bench.claims.tails.loads import cpu_of, cpu_s
from bench.claims.tails.stand import ROW_RUN_MS
from flyball.bench.phases import threads_on
from flyball.bench.table import latency, size
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process
    from flyball.native.load_documents import LoadResult

CORES_MIN, LANES = 16, 8
WINDOW_S, REPEATS = 4.0, 5
# CPU a request of one lane differs by a fifth from window to window on a shared host: five do not settle a tenth.
CPU_REPEATS = 15
CPU_MAX = 1.2
STREAMS, CONNECTIONS_PER_LANE = 64, 16
RATE_PER_S, RATE_CORES, RATE_CONNECTIONS, P99_US_MAX = 5_000.0, 4, 32, 2_000.0
CPU, SPENT, RATE = "cpu_us a request", "lane_cpu_s", "at rate"


def measure(stand: Stand) -> None:
    """CPU a request, one connection over all lanes, and the MLP on four cores."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < CORES_MIN and not stand.quick:
        stand.not_measured(f"{len(cores)} cores; the claim needs {CORES_MIN}")
        return
    half = max(len(cores) // 2, 1)
    ours, others = cores[:half], cores[half:]
    _cpu_a_request(stand, ours, others)
    _one_connection(stand, ours, others)
    _at_rate(stand, ours, others)


def _cpu_a_request(stand: Stand, ours: list[int], others: list[int]) -> None:
    with (
        stand.serve(stand.fraud, lanes=1, cpus=ours[:1]) as one,
        stand.serve(stand.fraud, lanes=LANES, cpus=ours[:LANES]) as all_,
    ):

        def cpu_us(server: Process, lanes: int) -> float:
            connections = CONNECTIONS_PER_LANE * lanes
            # A generator's thread for each lane: its own bursts are the same at both sizes, and so are the batches.
            spread = {"cpus": others[:lanes], "threads": lanes, "duration_s": stand.seconds(WINDOW_S)}
            result, used_s = cpu_of(server, stand.fraud, connections, **spread)
            _refuse_faults(result)
            return used_s / result.answered * 1e6

        for server, lanes in ((one, 1), (all_, LANES)):  # what the first requests cost is no part of it
            cpu_us(server, lanes)
        sides = {"1 lane": lambda: cpu_us(one, 1), f"{LANES} lanes": lambda: cpu_us(all_, LANES)}
        windows = stand.in_turn(sides, CPU_REPEATS)
    stand.keep(CPU, windows)


def _one_connection(stand: Stand, ours: list[int], others: list[int]) -> None:
    names = [f"lane-{place}" for place in range(LANES)]
    with stand.serve(stand.row, lanes=LANES, cpus=ours[:LANES]) as server:

        def lanes_cpu_s() -> list[float]:
            before = server.thread_cpu_s()
            result = stand.row.load_unchecked(
                server, 1, protocol="grpc", streams=STREAMS, cpus=others, duration_s=stand.seconds(WINDOW_S)
            )
            _refuse_faults(result)
            after = server.thread_cpu_s()
            return [after.get(name, 0.0) - before.get(name, 0.0) for name in names]

        windows = stand.in_turn({"lanes": lanes_cpu_s}, REPEATS)
    stand.keep(SPENT, windows)


def _at_rate(stand: Stand, ours: list[int], others: list[int]) -> None:
    seeds = count(1)
    shares: list[float] = []
    sizes: list[float] = []
    with stand.serve(stand.mlp, lanes=RATE_CORES, cpus=ours[:RATE_CORES]) as server:

        def window() -> LoadResult:
            before = cpu_s(server)
            result = _open(stand, stand.mlp, server, others, next(seeds))
            shares.append((cpu_s(server) - before) / (result.elapsed_s + result.warmup.used_s) / RATE_CORES)
            sizes.append(server.rss_bytes())
            return result

        windows = stand.in_turn({"rate": window}, REPEATS)
    stand.keep(RATE, windows)
    stand.keep("at rate: cpu_share", shares)
    stand.keep("at rate: memory_bytes", sizes)


def _open(stand: Stand, subject: Subject, server: Process, cpus: list[int], seed: int) -> LoadResult:
    result = subject.load_unchecked(
        server,
        RATE_CONNECTIONS,
        arrivals=Arrivals(kind="poisson", rate_per_s=RATE_PER_S, seed=seed),
        duration_s=stand.seconds(WINDOW_S),
        cpus=cpus,
        threads=threads_on(cpus, RATE_CONNECTIONS),
    )
    _refuse_faults(result)
    return result


def _refuse_faults(result: LoadResult) -> None:
    if result.failed or result.mismatched or result.refused:
        raise FlyballError(f"not every request was answered right: {result.first_problem}")


def _lanes_apart(raw: Raw) -> Figure:
    windows = raw.windows(SPENT).values("lanes")
    apart = median(1 - min(times) / max(times) if max(times) else 1.0 for times in windows)
    middle = [median(times[place] for times in windows) for place in range(LANES)]
    return Figure(apart, f"{min(middle):.2f} s to {max(middle):.2f} s")


def _p99(raw: Raw) -> Figure:
    sides = raw.windows(RATE)
    shares, sizes = median(raw["at rate: cpu_share"]), median(raw["at rate: memory_bytes"])
    told = f"p50 {latency(sides.median('rate', 'latency_us.p50'))}; {shares:.0%} of the cores, {size(int(sizes))}"
    return Figure(sides.median("rate", "latency_us.p99"), told)


TOPIC = Topic(
    "cores",
    measure,
    subject=f"a machine with {CORES_MIN} cores, half of them the server's",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s",
    claims=(
        Claim(
            "cpu",
            f"GBDT: server CPU a request, {LANES} lanes over 1",
            at_most(CPU_MAX, times),
            median_over(CPU, f"{LANES} lanes", "1 lane"),
            sample=f"{CPU_REPEATS} windows of {WINDOW_S:g} s a side, in turn",
        ),
        Claim(
            "lanes",
            f"{ROW_RUN_MS:g} ms a run, one gRPC connection, {STREAMS} streams: CPU times of {LANES} lanes apart",
            at_most(LANES_APART_MAX, share),
            _lanes_apart,
        ),
        Claim("rate", f"MLP at {RATE_PER_S:,.0f}/s on {RATE_CORES} cores: p99", below(P99_US_MAX, us), _p99),
    ),
)
