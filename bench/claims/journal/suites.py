"""Topics that are whole suites of tests: they are run with many cases, and every one of them must pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from flyball.engine import ort_library
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.claims.tails.stand import Stand

CASES, QUICK_CASES = 4_096, 64
FUZZ_S, QUICK_FUZZ_S = 120, 10
_SUITE_S = 3_600.0
_PASSED = re.compile(r"(\d+) passed")
_FAILED = re.compile(r"(\d+) failed")
_SKIPPED = re.compile(r"(\d+) (?:skipped|ignored)")


def disk(stand: Stand) -> None:
    """A small tmpfs that is filled, torn tails, changed bytes, against a running server."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/e2e/test_journal_faults.py"]
    _judge(stand, "disk filled, tails torn, bytes changed under a running server", command)


def faults(stand: Stand) -> None:
    """The disk fails at every k-th call, in the journal's own tests."""
    _judge(stand, "I/O errors and short writes at every k-th call", cargo_test("faults"))


def tamper(stand: Stand) -> None:
    """Bytes, frames and segments are changed at random."""
    cases = {"PROPTEST_CASES": str(QUICK_CASES if stand.quick else CASES)}
    claim = f"tampering, {cases['PROPTEST_CASES']} random cases each: verify names the place"
    _judge(stand, claim, cargo_test("tamper"), cases)


def fuzz(stand: Stand) -> None:
    """The reader of segments is fed odd bytes."""
    seconds = QUICK_FUZZ_S if stand.quick else FUZZ_S
    claim, bar = f"fuzzing the segment reader, {seconds} s", "no crash, hang or large allocation"
    if run(stand, ["cargo", "fuzz", "--version"]).returncode:
        stand.report.not_measured(claim, bar, "cargo-fuzz is missing; get it: cargo install --locked cargo-fuzz")
        return
    done = run(stand, ["make", "fuzz", "ONLY=journal_segment", f"FUZZ_SECONDS={seconds}"])
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout + done.stderr)
    figure = f"{int(runs[1]):,} inputs" if runs else f"ended with {done.returncode}: {done.stderr[-200:]}"
    stand.report.judge(claim, figure, bar, holds=done.returncode == 0 and runs is not None)


def cargo_test(name: str) -> list[str]:
    """The journal's tests whose names have this in them, in a release build."""
    return ["cargo", "test", "--release", "--locked", "-p", "flyball-journal", name]


def run(
    stand: Stand, command: Sequence[str], more: Mapping[str, str] | None = None, timeout_s: float = _SUITE_S
) -> subprocess.CompletedProcess[str]:
    """Run it to its end and keep the end of what it said."""
    environment = {**os.environ, "ORT_DYLIB_PATH": str(ort_library()), **(more or {})}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise FlyballError(f"{' '.join(command)} did not end within {timeout_s:.0f} s") from error
    stand.keep(" ".join(command), {"exit": done.returncode, "said": (done.stdout + done.stderr)[-4000:]})
    return done


def _judge(stand: Stand, claim: str, command: Sequence[str], more: Mapping[str, str] | None = None) -> None:
    done = run(stand, command, more)
    said = done.stdout + done.stderr
    passed, failed, skipped = (sum(map(int, words.findall(said))) for words in (_PASSED, _FAILED, _SKIPPED))
    figure = f"{passed} passed, {failed} failed, {skipped} not run"
    stand.report.judge(claim, figure, "all", holds=done.returncode == 0 and passed > 0 and not failed)
