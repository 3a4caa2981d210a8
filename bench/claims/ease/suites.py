"""Topics that the project's own tests decide: each is a file of tests, and holds if all of them pass."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.claims import suites
from bench.claims.bars import none
from bench.claims.claim import Claim, Topic
from bench.claims.figures import suite_failures

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

RUN = "suite"


def _measure(stand: Stand, file: str) -> None:
    suites.keep(stand, RUN, suites.pytest(file))


def _topic(name: str, file: str, subject: str, sentence: str) -> Topic:
    return Topic(
        name,
        partial(_measure, file=file),
        subject=subject,
        sample=f"every test of {file}",
        claims=(Claim(name, sentence, none(), suite_failures(RUN)),),
    )


MISTAKES = _topic(
    "mistakes",
    "tests/contract/test_first_hour.py",
    "60 mistakes of the first hour",
    "mistakes without one message of at most three lines, as the golden file has it",
)
FORMS = _topic(
    "forms",
    "tests/clients/test_data_forms.py",
    "eleven ways to pass the same data",
    "ways to pass data that get another answer",
)
ASYNC = _topic(
    "async",
    "tests/clients/test_async_client.py",
    "1,000 decisions in flight on one event loop",
    "tests of order, errors and cancellation that fail",
)
LINES = _topic(
    "lines",
    "tests/contract/test_random_lines.py",
    "2,000 random command lines",
    "suites of lines that end with a traceback, or with an exit code that is not in the documented table",
)
