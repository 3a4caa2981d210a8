"""The command of a suite of claims: its arguments, one stand for all topics, its lines and its exit code.

Exits 1 where a claim falls short. Under `--strict` (or STRICT=1) a claim that was not measured fails too, unless a stored
record of another machine class covers it. Must not know what is claimed.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bench.claims.provenance import head_here
from bench.claims.record import RECORDS
from bench.claims.report import counted, exit_code, exit_with
from bench.claims.run import Run, covered_elsewhere
from bench.claims.tails.stand import Stand
from flyball.bench.machine import refuse_debug_build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.claims.claim import Suite
    from bench.claims.settled import Line

_HEAD = f"{'verdict':<13} {'claim':<76} {'figure':<46} bar"


def run_suite(suite: Suite) -> NoReturn:
    """The whole command: measures the topics that its arguments name, and ends."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers are ended on the way out
    exit_with(lambda: measure_suite(suite, arguments_of(suite).parse_args()))


def arguments_of(suite: Suite) -> argparse.ArgumentParser:
    """The same for every suite."""
    names = [topic.name for topic in suite.topics]
    parser = argparse.ArgumentParser(description=f"The claims of `make claim-{suite.name}`: {suite.title}")
    parser.add_argument("--only", nargs="+", choices=names, default=[], metavar="TOPIC", help=" ".join(names))
    parser.add_argument("--resume", action="store_true", help="the topics that the newest record of this build lacks")
    parser.add_argument("--quick", action="store_true", help="windows so short that they prove nothing; stores nothing")
    strict = os.environ.get("STRICT", "") not in ("", "0")
    parser.add_argument("--strict", action="store_true", default=strict, help="fail where a claim is measured nowhere")
    parser.add_argument("--results", type=Path, default=RECORDS, help="where records are kept")
    parser.add_argument("--packed", type=Path, help="prebuilt files, of bench.claims.tails.pack")
    return parser


def measure_suite(suite: Suite, arguments: argparse.Namespace) -> int:
    """Measure the topics that are asked for."""
    refuse_debug_build()
    if arguments.packed:
        os.environ.setdefault("ORT_DYLIB_PATH", str((arguments.packed / "libonnxruntime.so").absolute()))
    head = head_here(suite.name, arguments.packed)
    how = {"quick": arguments.quick, "resume": arguments.resume, "results": arguments.results}
    run = Run.begin(suite, head, arguments.only, **how)
    if arguments.quick:
        print("quick: the windows are too short to prove anything; this only shows that the measurements run")
    print(_HEAD)
    if len(os.sched_getaffinity(0)) < 2:
        run.skip("one core only: server and generator cannot be set apart")
        _print(run.lines())
    else:
        _measure(run, quick=arguments.quick, packed=arguments.packed)
    lines = run.lines()
    covered = covered_elsewhere(lines, suite, head, arguments.results)
    print(f"\n{counted(lines, covered)}. Record: {run.finish()}")
    return exit_code(lines, covered, strict=arguments.strict)


def _measure(run: Run, *, quick: bool, packed: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(Path(folder), quick=quick, packed=packed)
        for topic in run.chosen:
            _print(run.attempt(topic, stand))
            stand.tell(f"took {run.record.of(topic.name)[-1].took_s:.0f} s")


def _print(lines: Sequence[Line]) -> None:
    for line in lines:
        print(line, flush=True)
