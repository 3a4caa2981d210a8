"""Topic: scaling with cores, on a machine with sixteen. Also a separate command, for machines that build nothing:

python -m bench.claims.tails.cores --packed bench/.carry --json OUT.json     (bench.claims.tails.pack makes the folder)
"""

from __future__ import annotations

import argparse
import os
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.report import Report, discarded, exit_with, median
from bench.claims.tails.loads import cpu_of, cpu_s
from bench.claims.tails.stand import ROW_RUN_MS, Stand, raw
from flyball.bench.phases import threads_on
from flyball.bench.table import latency, size
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.subjects import Subject
    from flyball.bench.process import Process
    from flyball.native.load_documents import LoadResult

CORES_MIN, LANES = 16, 8
WINDOW_S, REPEATS = 4.0, 5
# CPU a request of one lane differs by a fifth from window to window on a shared host: five do not settle a tenth.
CPU_REPEATS = 15
CPU_MAX, LANES_APART_MAX = 1.2, 0.25
STREAMS, CONNECTIONS_PER_LANE = 64, 16
RATE_PER_S, RATE_CORES, RATE_CONNECTIONS, P99_US_MAX = 5_000.0, 4, 32, 2_000.0
CLAIMS = {
    "cpu": (f"GBDT: server CPU a request, {LANES} lanes over 1", f"<= {CPU_MAX:g} times"),
    "lanes": (
        f"{ROW_RUN_MS:g} ms a run, one gRPC connection, {STREAMS} streams: {LANES} lanes' CPU apart",
        f"<= {LANES_APART_MAX:.0%}",
    ),
    "rate": (f"MLP at {RATE_PER_S:,.0f}/s on {RATE_CORES} cores: p99", f"< {latency(P99_US_MAX)}"),
}


def measure(stand: Stand) -> None:
    """CPU a request, one connection over all lanes, and the MLP on four cores."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < CORES_MIN and not stand.quick:
        for claim, bar in CLAIMS.values():
            stand.report.not_measured(claim, bar, f"{len(cores)} cores; the claim needs {CORES_MIN}")
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
    stand.keep("cpu_us a request", raw(windows))
    if doubt := stand.doubt(windows):
        stand.report.not_measured(*CLAIMS["cpu"], doubt)
        return
    alone, many = (median(found.values) for found in windows.values())
    claim, bar = CLAIMS["cpu"]
    figure = f"{many / alone:.2f} times ({latency(many)}, {latency(alone)})"
    stand.report.record(claim, figure, f"{bar}, {discarded(windows)}", holds=many <= CPU_MAX * alone)


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
    stand.keep("lane_cpu_s", raw(windows))
    if doubt := stand.doubt(windows):
        stand.report.not_measured(*CLAIMS["lanes"], doubt)
        return
    apart = median([1 - min(times) / max(times) if max(times) else 1.0 for times in windows["lanes"].values])
    middle = [median([times[place] for times in windows["lanes"].values]) for place in range(LANES)]
    claim, bar = CLAIMS["lanes"]
    figure = f"{apart:.0%} ({min(middle):.2f} s to {max(middle):.2f} s)"
    stand.report.record(claim, figure, f"{bar}, {discarded(windows)}", holds=apart <= LANES_APART_MAX)


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
    stand.keep("at rate", {**raw(windows), "cpu_share": shares, "memory_bytes": sizes})
    if doubt := stand.doubt(windows):
        stand.report.not_measured(*CLAIMS["rate"], doubt)
        return
    results = windows["rate"].values
    p50, p99 = median([one.latency_us.p50 for one in results]), median([one.latency_us.p99 for one in results])
    claim, bar = CLAIMS["rate"]
    figure = f"{latency(p99)}, p50 {latency(p50)}; {median(shares):.0%} of the cores, {size(int(median(sizes)))}"
    stand.report.record(claim, figure, f"{bar}, {discarded(windows)}", holds=p99 < P99_US_MAX)


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


def main() -> int:
    """This topic alone, from prebuilt files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packed", type=Path, required=True, help="the folder that bench.claims.tails.pack made")
    parser.add_argument("--json", type=Path, required=True, help="the report's file")
    parser.add_argument("--quick", action="store_true", help="windows so short that they prove nothing, on any machine")
    arguments = parser.parse_args()
    os.environ.setdefault("ORT_DYLIB_PATH", str((arguments.packed / "libonnxruntime.so").absolute()))
    report = Report("cores", quick=arguments.quick)
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(report, Path(folder), quick=arguments.quick, packed=arguments.packed)
        stand.begin("cores")
        measure(stand)
        stand.end()
    return report.finish(arguments.json)


if __name__ == "__main__":
    exit_with(main)
