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
_END_CHARACTERS = 1_000
_PASSED = re.compile(r"(\d+) passed")
_FAILED = re.compile(r"(\d+) failed")
_SKIPPED = re.compile(r"(\d+) (?:skipped|ignored)")


def pytest(*words: str) -> list[str]:
    """Python tests, by files and pytest options; skip reasons are reported."""
    return [sys.executable, "-m", "pytest", "-q", "-rs", "--timeout", "600", *words]


def cargo_test(package: str, *words: str) -> list[str]:
    """Tests of a crate, by cargo options and parts of their names."""
    return ["cargo", "test", "--profile", "tested", "--locked", "-p", package, *words]


def keep(stand: Stand, name: str, command: Sequence[str], more: Mapping[str, str] | None = None) -> None:
    """Run a suite and keep its counts; `figures.suite_failures` makes them a figure."""
    done = run(command, more)
    said = done.stdout + done.stderr
    passed, failed, skipped = (sum(map(int, words.findall(said))) for words in (_PASSED, _FAILED, _SKIPPED))
    reason = re.search(r"^SKIPPED .*?: (.+)$", said, re.MULTILINE)
    counts = {"passed": passed, "failed": failed, "skipped": skipped, "exit": done.returncode}
    end = said[-_END_CHARACTERS:] if done.returncode else ""
    stand.keep(name, {**counts, "why_skipped": reason[1] if reason else "", "end": end})


def run(command: Sequence[str], more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    environment = {**os.environ, "ORT_DYLIB_PATH": str(ort_library()), **(more or {})}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SUITE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise FlyballError(f"{' '.join(command)} did not end within {SUITE_S:.0f} s") from error
    return done
