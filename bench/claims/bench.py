"""`make claim-bench`: the measured promises of the benchmark itself.

Run:  python -m bench.claims.bench [--rounds N]   from the repository's root; the make target builds first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.claims import tools
from bench.claims.report import Report, exit_with
from bench.claims.subjects import Subject, flyballd
from bench.parts.here import NotHereError
from bench.peers.peers import Setting, choose, install, payloads_for, serving
from flyball.bench.compare import measure_pairs
from flyball.bench.measure import Measurement
from flyball.bench.measure import Subject as Server
from flyball.bench.models.fraud import fraud_rows, make_fraud_gbdt
from flyball.bench.overhead import echo_plan, start_echo, unchecked
from flyball.bench.payloads import make_payloads
from flyball.bench.process import Process, split_cpus
from flyball.bench.run import run_load
from flyball.bench.scenario import PayloadSource
from flyball.bench.scenario_run import Cores, Requests, new_record
from flyball.bench.statistics import Estimate, mean_interval
from flyball.bench.table import latency
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals, LoadPlan, LoadResult, Warmup

if TYPE_CHECKING:
    from collections.abc import Callable

STALL_MS, STALL_EVERY_S, STALL_RATE = 200, 2.0, 1000.0
STALL_WITHIN = 0.05
RATE_MIN = 50_000
ROUNDS_RIGHT_MIN = 0.9
SERVICE_US, SLOWER_US = 300, 360
CONNECTIONS, TOOL_S = 16, 2.0
SPREAD_MAX = 1.25  # an interval that is wider agrees with anything
_WARMUP = Warmup(least_s=0.3, most_s=0.3)


def echo(*flags: object) -> Process:
    """An echo on the server's cores, with a configured fault if requested."""
    return start_echo(split_cpus()[0], *flags)


def load(server: Process, rows: bytes, seconds: float, arrivals: Arrivals, connections: int = 32) -> LoadResult:
    """One window against an echo."""
    plan = echo_plan(server.url, seconds, split_cpus()[1])
    return run_load(plan.model_copy(update={"arrivals": arrivals, "connections": connections}), rows)


def stall(report: Report, rows: bytes) -> None:
    """A stall of 200 ms every 2 s: requests due in it wait 100 ms on average, a tenth of them more than 180 ms."""
    claim, bar = "server that stalls 200 ms every 2 s: p99", f"within {STALL_WITHIN:.0%} of the arithmetic truth"
    # Of the tenth that falls into a stall, the slowest tenth are the slowest hundredth of all.
    truth_us = (STALL_MS / 1e3 - 0.01 * STALL_EVERY_S) * 1e6
    periods = 10
    with echo("--stall-ms", STALL_MS, "--stall-every-s", STALL_EVERY_S) as server:
        opened = load(server, rows, periods * STALL_EVERY_S, Arrivals(kind="constant", rate_per_s=STALL_RATE))
        closed = load(server, rows, periods * STALL_EVERY_S, Arrivals(kind="closed"), connections=1)
    report.keep("stall", {"truth_us": truth_us, "open": opened.model_dump(), "closed": closed.model_dump()})
    apart = abs(opened.latency_us.p99 / truth_us - 1)
    figure = (
        f"{latency(opened.latency_us.p99)}, truth {latency(truth_us)}; a closed loop shows {latency(closed.latency_us.p99)}"
    )
    report.record(claim, figure, bar, holds=apart <= STALL_WITHIN and closed.latency_us.p99 < truth_us / 10)


def own_overhead(report: Report, rows: bytes) -> None:
    """The generator's overhead, and its maximum rate on one core."""
    with echo() as server:
        quiet = load(server, rows, 3.0, Arrivals(kind="constant", rate_per_s=1000.0))
        closed = [load(server, rows, 2.0, Arrivals(kind="closed"), connections=64) for _ in range(3)]
        opened = load(server, rows, 3.0, Arrivals(kind="poisson", rate_per_s=float(RATE_MIN), seed=1), connections=64)
    report.keep(
        "overhead",
        {"quiet": quiet.model_dump(), "closed": [one.model_dump() for one in closed], "open": opened.model_dump()},
    )
    added = quiet.latency_us
    report.record(
        "generator and echo, 1000/s: added latency",
        f"p50 {latency(added.p50)}, p99 {latency(added.p99)}",
        "printed",
        holds=quiet.answered > 0 and quiet.failed == 0,
    )
    best = max(one.rate_per_s for one in closed)
    report.record(
        "generator on one core, closed loop, 64 connections", f"{best:,.0f}/s", f">= {RATE_MIN:,}/s", holds=best >= RATE_MIN
    )
    kept = opened.rate_per_s >= 0.99 * RATE_MIN and opened.failed == 0
    figure = f"{opened.rate_per_s:,.0f}/s, p50 {latency(opened.latency_us.p50)}, p99 {latency(opened.latency_us.p99)}"
    report.record("generator on one core, open loop, Poisson", figure, f">= {RATE_MIN:,}/s, none lost", holds=kept)


def other_tools(report: Report, fraud: Subject, folder: Path, rounds: int) -> None:
    """Other tools' closed loops against ours on the same servers: same connections, one thread, alternating windows."""
    line = fraud.payloads.splitlines()[0].decode()
    body = json.dumps({"id": "1", "inputs": json.loads(line)["inputs"]}, separators=(",", ":"))
    setting: dict[str, Any] = {"connections": CONNECTIONS, "seconds": TOOL_S, "cpus": split_cpus()[1]}
    with echo("--service-us", SERVICE_US) as server:
        ours = partial(_ours, server.url, fraud.name, unchecked(fraud.payloads, 1), path="/")
        where = f"{SERVICE_US} µs a request"
        for name, run in (("wrk", tools.run_wrk), ("oha", tools.run_oha)):
            theirs = partial(run, f"{server.url}/", body, **setting)
            _agree(report, Rivals(f"{name}, {where}", ours, theirs, rounds))
    with flyballd(fraud, folder) as server:
        ours = partial(_ours, server.url, fraud.name, line.encode())
        url = f"{server.url}/v2/models/{fraud.name}/infer"
        for name, run in (("wrk", tools.run_wrk), ("oha", tools.run_oha)):
            theirs = partial(run, url, body, **setting)
            _beside(report, Rivals(f"{name}, flyballd with the GBDT", ours, theirs, rounds))
    _against_triton(report, fraud, line, setting, rounds)


def _against_triton(report: Report, fraud: Subject, line: str, setting: dict[str, Any], rounds: int) -> None:
    """perf_analyzer needs a model configuration first, which Triton has."""
    (triton,) = choose(["triton"])
    reason = install(triton)
    if isinstance(reason, str):
        report.not_measured(*_agreement("perf_analyzer, Triton"), f"Triton did not install: {reason}")
        return
    with serving(triton, f"{fraud.name}={fraud.path}", Setting(workers=1), split_cpus()[0]) as server:
        ours = partial(_ours, server.url, fraud.name, payloads_for(triton, line.encode()), protocol="http-binary")
        theirs = partial(tools.run_perf_analyzer, server.url, fraud.name, line, **setting)
        _agree(report, Rivals("perf_analyzer, Triton", ours, theirs, rounds))


def _ours(url: str, model: str, rows: bytes, **changes: Any) -> tools.ClosedLoop:
    plan = LoadPlan(
        url=url,
        model=model,
        connections=CONNECTIONS,
        duration_s=TOOL_S,
        warmup=_WARMUP,
        cpus=split_cpus()[1],
        **changes,
    )
    result = run_load(plan, rows)
    if result.failed or result.mismatched or result.refused:
        raise FlyballError(f"{url}: {result.first_problem}")
    return tools.ClosedLoop(result.rate_per_s, result.latency_us.p50)


def _agreement(name: str) -> tuple[str, str]:
    return f"closed loop, {CONNECTIONS} connections, rate over ours: {name}", "1 lies in the 95 % interval"


@dataclass(frozen=True, slots=True)
class Rivals:
    """Another tool's closed loop and ours on the same server, and the number of rounds."""

    name: str
    ours: Callable[[], tools.ClosedLoop]
    theirs: Callable[[], tools.ClosedLoop]
    rounds: int


def _agree(report: Report, rivals: Rivals) -> None:
    """The same server must give both the same rate, within the windows' spread."""
    claim, bar = _agreement(rivals.name)
    found = _ratios(report, rivals)
    if isinstance(found, str):
        report.not_measured(claim, bar, found)
        return
    interval = found.interval
    if interval is None or interval.high / interval.low > SPREAD_MAX:
        report.not_measured(claim, bar, f"too noisy here to tell: {_told(found)}")
    else:
        report.record(claim, _told(found), bar, holds=interval.low <= 1 <= interval.high)


def _beside(report: Report, rivals: Rivals) -> None:
    """A server of microseconds is sensitive to its client; the ratio is printed without a bar."""
    found = _ratios(report, rivals)
    claim, bar = _agreement(rivals.name)[0], "printed; docs/performance.md says why it differs"
    if isinstance(found, str):
        report.not_measured(claim, bar, found)
    else:
        report.record(claim, _told(found), bar, holds=True)


def _ratios(report: Report, rivals: Rivals) -> Estimate | str:
    ratios = []
    for turn in range(rivals.rounds):
        try:
            # Alternate the order, so that drift affects both alike.
            first, second = (rivals.theirs(), rivals.ours()) if turn % 2 else (rivals.ours(), rivals.theirs())
        except NotHereError as missing:
            return missing.message
        there, here = (first, second) if turn % 2 else (second, first)
        ratios.append(there.rate_per_s / here.rate_per_s)
    report.keep(f"{rivals.name}: rate over ours", ratios)
    return mean_interval(ratios)


def _told(found: Estimate) -> str:
    interval = found.interval
    return f"{found.value:.3f}" + (f" ({interval.low:.3f} to {interval.high:.3f})" if interval else "")


def comparisons(report: Report, fraud: Subject, folder: Path, rows: bytes, rounds: int) -> None:
    """Ten times the same server against itself, and ten times against one that is 20 % slower."""
    with flyballd(fraud, folder) as server:
        same = Server("A", server.url), Server("B", server.url)
        right = sum(not _differs(fraud.name, fraud.payloads, same, None, folder) for _ in range(rounds))
    _count(report, "A/A, flyballd against itself: no difference shown", right, rounds)
    with echo("--service-us", SERVICE_US) as a, echo("--service-us", SLOWER_US) as b:
        same = Server("A", a.url, path="/"), Server("B", a.url, path="/")
        right = sum(not _differs("echo", rows, same, "/", folder) for _ in range(rounds))
        _count(report, "A/A, a server with a known service time: no difference shown", right, rounds)
        apart = Server("A", a.url, path="/"), Server("B", b.url, path="/")
        found = sum(_differs("echo", rows, apart, "/", folder) for _ in range(rounds))
    _count(report, f"service time {SLOWER_US} µs against {SERVICE_US} µs: slower", found, rounds)


def _differs(model: str, rows: bytes, sides: tuple[Server, Server], path: str | None, folder: Path) -> bool:
    cores = Cores.here()
    requests = Requests(model, None, rows, PayloadSource())
    plan = LoadPlan(
        url=sides[0].url, model=model, path=path, connections=4, duration_s=0.5, warmup=_WARMUP, cpus=cores.generator
    )
    with Measurement(new_record(["claim-bench"], requests, cores), folder / "pairs.json", rows) as measurement:
        return measure_pairs(measurement, sides, plan, repeats=8, progress=_Silent()).shown


def _count(report: Report, claim: str, right: int, rounds: int) -> None:
    report.record(claim, f"{right} of {rounds}", f">= {ROUNDS_RIGHT_MIN:.0%}", holds=right >= ROUNDS_RIGHT_MIN * rounds)


class _Silent:
    """Progress that shows nothing."""

    def begin(self, name: str, total: float) -> _Silent:
        del name, total
        return self

    def update(self, completed: float, told: str) -> None:
        pass

    def end(self, told: str) -> None:
        pass


def one_command(report: Report, folder: Path) -> None:
    """The scenario in one command writes table, page and plots."""
    command = [sys.executable, "-m", "flyball", "bench", "--scenario", "fraud-gbdt", "--quick", "--out", str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    made = sorted(path.suffix for path in (folder / "out").iterdir()) if (folder / "out").is_dir() else []
    holds = done.returncode == 0 and made.count(".html") == 1 and made.count(".json") == 1 and made.count(".png") >= 4
    figure = f"exit {done.returncode}, {made.count('.png')} PNGs" + ("" if holds else f": {done.stderr[-300:]}")
    report.record("flyball bench --scenario fraud-gbdt --quick", figure, "record, page and PNGs", holds=holds)


def main() -> int:
    """Measure everything; the exit code is 1 if a claim falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="comparisons of each kind")
    arguments = parser.parse_args()
    report = Report("bench")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        path = make_fraud_gbdt(folder / "fraud.onnx")
        payloads = make_payloads(path, 2000, seed=11, rows=lambda count: fraud_rows(count, seed=11)[0])
        fraud = Subject("fraud", path, payloads, 2.0)
        rows = unchecked(payloads, 200)
        if len(os.sched_getaffinity(0)) < 2:
            report.not_measured("everything", "", "one core only: server and generator cannot be set apart")
            return report.finish()
        stall(report, rows)
        own_overhead(report, rows)
        other_tools(report, fraud, folder, rounds=8)
        comparisons(report, fraud, folder, rows, arguments.rounds)
        one_command(report, folder)
    return report.finish()


if __name__ == "__main__":
    exit_with(main)
