"""Test suites that prove a claim: run with many cases, counted, and all must pass.

Must not know what they test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from flyball.errors import FlyballError
from flyball.native.boundary import ort_library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.claims.tails.stand import Stand

SUITE_S = 3_600.0
_PASSED = re.compile(r"(\d+) passed")
_FAILED = re.compile(r"(\d+) failed")
_SKIPPED = re.compile(r"(\d+) (?:skipped|ignored)")


def pytest(*words: str) -> list[str]:
    """Python tests, by files and pytest options; skip reasons are reported."""
    return [sys.executable, "-m", "pytest", "-q", "-rs", "--timeout", "600", *words]


def cargo_test(package: str, *words: str) -> list[str]:
    """Tests of a crate, by cargo options and parts of their names."""
    return ["cargo", "test", "--profile", "tested", "--locked", "-p", package, *words]


def record(
    stand: Stand,
    claim: str,
    command: Sequence[str],
    more: Mapping[str, str] | None = None,
    *,
    bar: str = "all pass",
    shows: str = "",
) -> None:
    """All of a suite's tests must pass; skipped ones count as not measured. `shows` describes what they prove."""
    done = run(stand, command, more)
    said = done.stdout + done.stderr
    passed, failed, skipped = (sum(map(int, words.findall(said))) for words in (_PASSED, _FAILED, _SKIPPED))
    if skipped and not failed and done.returncode == 0:
        reason = re.search(r"^SKIPPED .*?: (.+)$", said, re.MULTILINE)
        stand.report.not_measured(claim, bar, reason[1] if reason else f"{skipped} tests were not run")
        return
    holds = done.returncode == 0 and passed > 0 and not failed
    figure = f"{passed} passed, {failed} failed" if passed or failed else said[-300:]
    stand.report.record(claim, shows if holds and shows else figure, bar, holds=holds)


def run(stand: Stand, command: Sequence[str], more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run it to its end and keep the end of its output."""
    environment = {**os.environ, "ORT_DYLIB_PATH": str(ort_library()), **(more or {})}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SUITE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise FlyballError(f"{' '.join(command)} did not end within {SUITE_S:.0f} s") from error
    stand.keep(" ".join(command), {"exit": done.returncode, "said": (done.stdout + done.stderr)[-4000:]})
    return done
