"""`make claim-skeleton`: the measured promises of the walking skeleton.

Run:  python -m bench.claims.skeleton [--seconds N] [--repeats N]   from the repository's root; the make target builds first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from functools import partial
from pathlib import Path

from bench.claims.report import Report, Windows, discarded, exit_with, interleave, median, too_few
from bench.claims.subjects import Subject, answer_bytes, ask, echo, fastapi, flyball_serve, flyballd
from flyball.bench.bare_loop import measure_bare
from flyball.bench.models.fraud import fraud_rows, make_fraud_gbdt
from flyball.bench.models.perceptron import make_int8_mlp, make_mlp
from flyball.bench.payloads import make_payloads
from flyball.bench.process import Process, on_cpus, split_cpus
from flyball.bench.run import first_answer
from flyball.bench.stages import mean_batch_rows, metrics
from flyball.bench.table import latency, size
from flyball.native.models import inspect

CONNECTIONS = 16
PEERS = {"FastAPI def": "def", "FastAPI async def": "async"}
RATIO_MIN, BATCH_MIN, P50_FACTOR, LANES_APART_MAX = 10.0, 4.0, 1.6, 0.25
LANE_CPU_S_MIN = 0.1  # the kernel counts in ticks of 10 ms


def throughput(report: Report, fraud: Subject, folder: Path, repeats: int) -> None:
    """Requests per second against the better FastAPI peer, and the mean batch behind them."""
    claim, bar = f"GBDT, JSON, {CONNECTIONS} connections: requests a second over FastAPI's", f">= {RATIO_MIN:g} times"
    batch_claim, batch_bar = f"GBDT, {CONNECTIONS} connections: mean batch", f">= {BATCH_MIN:g} rows"
    if len(os.sched_getaffinity(0)) < 2:
        for unproven in ((claim, bar), (batch_claim, batch_bar)):
            report.not_measured(*unproven, "one core only: server and generator cannot be set apart")
        return
    with flyballd(fraud, folder) as ours, fastapi(fraud, "def") as threads, fastapi(fraud, "async") as loop:
        servers = {"flyballd": ours, "FastAPI def": threads, "FastAPI async def": loop}
        before = metrics(ours.url)
        windows = interleave({name: partial(_rate, fraud, server) for name, server in servers.items()}, repeats)
        batch = mean_batch_rows(before, metrics(ours.url), fraud.name)
    report.keep("throughput_per_s", _raw(windows))
    report.keep("mean_batch_rows", batch)
    reason = too_few(windows)
    if reason:
        report.not_measured(claim, bar, reason)
    else:
        rates = {name: median(found.values) for name, found in windows.items()}
        peer = max(PEERS, key=lambda name: rates[name])
        ratio = rates["flyballd"] / rates[peer]
        figure = f"{ratio:.1f} times ({rates['flyballd']:,.0f}/s, {peer} {rates[peer]:,.0f}/s)"
        report.record(claim, figure, f"{bar}, {discarded(windows)}", holds=ratio >= RATIO_MIN)
    report.record(batch_claim, f"{batch or 0:.1f} rows", batch_bar, holds=(batch or 0) >= BATCH_MIN)


def one_connection(report: Report, fraud: Subject, folder: Path, repeats: int) -> None:
    """The median answer time of a single caller, against an echo on the same stack and the bare engine."""
    claim = "GBDT, JSON, 1 connection: p50 over echo + bare engine"
    bar = f"<= {P50_FACTOR:g} times"
    if len(os.sched_getaffinity(0)) < 2:
        report.not_measured(claim, bar, "one core only: server and generator cannot be set apart")
        return

    def bare_p50() -> float:
        with on_cpus(split_cpus()[0]):
            return measure_bare(fraud.path, fraud.payloads, fraud.seconds).p50_us

    with flyballd(fraud, folder) as ours, echo() as mirror:
        path = f"/?reply={answer_bytes(ours, fraud)}"
        unchecked = fraud.unchecked
        windows = interleave(
            {
                "flyballd": lambda: fraud.load(ours, 1).latency_us.p50,
                "echo": lambda: unchecked.load(mirror, 1, path=path).latency_us.p50,
                "bare": bare_p50,
            },
            repeats,
        )
    report.keep("one_connection_p50_us", _raw(windows))
    report.keep("engine_latency_us", [item.model_dump() for item in inspect(fraud.path, 1).latency])
    reason = too_few(windows)
    if reason:
        report.not_measured(claim, bar, reason)
        return
    p50 = {name: median(found.values) for name, found in windows.items()}
    factor = p50["flyballd"] / (p50["echo"] + p50["bare"])
    parts = f"{latency(p50['flyballd'])}, {latency(p50['echo'])} + {latency(p50['bare'])}"
    report.record(claim, f"{factor:.2f} times ({parts})", f"{bar}, {discarded(windows)}", holds=factor <= P50_FACTOR)


def cold_start_and_memory(report: Report, fraud: Subject, folder: Path, repeats: int) -> None:
    """Seconds from process start to the first correct answer, and resident memory after 1000 requests."""
    starts = {
        "flyballd": lambda: flyballd(fraud, folder),
        "flyball serve": lambda: flyball_serve(fraud),
        "FastAPI def": lambda: fastapi(fraud, "def"),
        "FastAPI async def": lambda: fastapi(fraud, "async"),
    }

    def once(name: str) -> tuple[float, int]:
        with starts[name]() as server:
            seconds = first_answer(server.url, fraud.name, fraud.first, started=server.started)
            ask(server, fraud, 1000)
            return seconds, server.rss_bytes()

    windows = interleave({name: partial(once, name) for name in starts}, repeats)
    report.keep("cold_start_s_and_rss_bytes", _raw(windows))
    claims = [
        ("cold start of flyballd to its first right answer", "<= half of FastAPI's"),
        ("cold start of flyball serve to its first right answer", "< FastAPI's"),
        ("resident memory of flyballd after 1000 requests", "< half of FastAPI's"),
    ]
    reason = too_few(windows)
    if reason:
        for claim, bar in claims:
            report.not_measured(claim, bar, reason)
        return
    cold = {name: median([value[0] for value in found.values]) for name, found in windows.items()}
    memory = {name: median([value[1] for value in found.values]) for name, found in windows.items()}
    peer_cold, peer_memory = (min(figures[name] for name in PEERS) for figures in (cold, memory))

    def beside(ours: str) -> str:
        return f"{latency(cold[ours] * 1e6)}, FastAPI {latency(peer_cold * 1e6)}"

    report.record(*_ordered(claims[0], beside("flyballd")), holds=cold["flyballd"] <= peer_cold / 2)
    report.record(*_ordered(claims[1], beside("flyball serve")), holds=cold["flyball serve"] < peer_cold)
    told = f"{size(int(memory['flyballd']))}, FastAPI {size(int(peer_memory))}"
    report.record(*_ordered(claims[2], told), holds=memory["flyballd"] < peer_memory / 2)


def lanes_share(report: Report, mlp: Subject, folder: Path, repeats: int) -> None:
    """CPU time of the two lanes while one gRPC connection carries everything."""
    claim, bar = "MLP, one gRPC connection, 32 streams, two lanes: CPU apart", f"<= {LANES_APART_MAX:.0%}"
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        report.not_measured(claim, bar, "one core only: there is one lane")
        return
    # Two lanes need two cores; without more, the generator shares them, unpinned.
    rest = cpus[2:] or None

    def apart() -> tuple[float, float]:
        before = ours.thread_cpu_s()
        mlp.load(ours, 1, protocol="grpc", streams=32, cpus=rest)
        after = ours.thread_cpu_s()
        first, second = (after.get(lane, 0.0) - before.get(lane, 0.0) for lane in ("lane-0", "lane-1"))
        return first, second

    with flyballd(mlp, folder, flags=["--lanes", "2"], cpus=cpus[:2]) as ours:
        windows = interleave({"lanes": apart}, repeats)
    report.keep("lane_cpu_s", _raw(windows))
    reason = too_few(windows)
    if reason:
        report.not_measured(claim, bar, reason)
        return
    differences = [lanes_apart(*pair) for pair in windows["lanes"].values]
    first, second = (median([pair[lane] for pair in windows["lanes"].values]) for lane in (0, 1))
    figure = f"{median(differences):.0%} ({first:.2f} s and {second:.2f} s)"
    report.record(claim, figure, f"{bar}, {discarded(windows)}", holds=median(differences) <= LANES_APART_MAX)


def lanes_apart(first_s: float, second_s: float) -> float:
    """The difference of two lanes' CPU times as a share of the larger; idle lanes prove nothing."""
    larger = max(first_s, second_s)
    return abs(first_s - second_s) / larger if larger >= LANE_CPU_S_MIN else 1.0


def int8_answers(report: Report, int8: Subject, folder: Path) -> None:
    """A model whose rows influence each other is served unbatched, so that load changes no answer."""
    with flyballd(int8, folder) as ours:
        before = metrics(ours.url)
        result = int8.load_unchecked(ours, CONNECTIONS)
        batch = mean_batch_rows(before, metrics(ours.url), int8.name)
    report.keep("int8", {**result.model_dump(), "mean_batch_rows": batch})
    figure = f"{result.mismatched} of {result.answered:,} differ, mean batch {batch or 0:.1f}"
    good = result.answered > 0 and not result.mismatched and not result.failed and batch == 1
    report.record("INT8 model, 16 connections: answers unlike those alone", figure, "0, unbatched", holds=good)


def _rate(subject: Subject, server: Process) -> float:
    return subject.load(server, CONNECTIONS).rate_per_s


def _ordered(claim: tuple[str, str], figure: str) -> tuple[str, str, str]:
    return claim[0], figure, claim[1]


def _raw(windows: dict[str, Windows]) -> dict[str, object]:
    return {name: {"values": found.values, "discarded": found.discarded} for name, found in windows.items()}


def main() -> int:
    """Measure everything; the exit code is 1 if a claim falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a window")
    parser.add_argument("--repeats", type=int, default=5, help="windows of each subject")
    arguments = parser.parse_args()
    report = Report("skeleton")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        fraud_path = make_fraud_gbdt(folder / "fraud.onnx")
        rows = make_payloads(fraud_path, 2000, seed=11, rows=lambda count: fraud_rows(count, seed=11)[0])
        fraud = Subject("fraud", fraud_path, rows, arguments.seconds)
        mlp_path = make_mlp(folder / "mlp.onnx")
        mlp = Subject("mlp", mlp_path, make_payloads(mlp_path, 500, seed=11), arguments.seconds)
        int8_path = make_int8_mlp(folder / "int8.onnx")
        int8 = Subject("int8", int8_path, make_payloads(int8_path, 2000, seed=11), arguments.seconds)
        throughput(report, fraud, folder, arguments.repeats)
        one_connection(report, fraud, folder, arguments.repeats)
        cold_start_and_memory(report, fraud, folder, arguments.repeats)
        lanes_share(report, mlp, folder, arguments.repeats)
        int8_answers(report, int8, folder)
    return report.finish()


if __name__ == "__main__":
    exit_with(main)
