"""Topics that the project's own tests decide: each is a file of tests, and holds if all of them pass."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.claims.report import Report
    from bench.claims.tails.stand import Stand

_MISTAKES = "tests/contract/test_first_hour.py"
_FORMS = "tests/clients/test_data_forms.py"
_ASYNC = "tests/clients/test_async_client.py"


def mistakes(stand: Stand) -> None:
    """60 mistakes of the first hour: one message of at most three lines each, as the golden file has it."""
    _decide(stand.report, "mistakes: each has one message of at most three lines", _MISTAKES)


def forms(stand: Stand) -> None:
    """Eleven ways to pass the same data."""
    _decide(stand.report, "forms: eleven ways to pass data, one answer", _FORMS)


def many_at_once(stand: Stand) -> None:
    """1,000 decisions in flight on one event loop."""
    _decide(stand.report, "async: 1,000 decisions in flight, order, errors, cancellation", _ASYNC)


def _decide(report: Report, claim: str, file: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file], capture_output=True, text=True, check=False
    )
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout)}
    figure = ", ".join(f"{number} {word}" for word, number in counts.items()) or done.stdout.strip().splitlines()[-1]
    holds = done.returncode == 0 and counts.get("passed", 0) > 0 and not counts.get("skipped")
    report.record(claim, figure, "all pass, none skipped", holds=holds)
    report.keep(file, done.stdout[-4000:])
