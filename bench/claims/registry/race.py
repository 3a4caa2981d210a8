"""Topic: processes that promote at once, are killed, or lose their database: those tests, many times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims import suites
from bench.claims.bars import none
from bench.claims.claim import Claim, Topic
from bench.claims.figures import suite_failures

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

TESTS, RUN, ROUNDS = "tests/e2e/test_registry_processes.py", "suite", 200


def measure(stand: Stand) -> None:
    """Run the suite with hundreds of rounds."""
    suites.keep(stand, RUN, suites.pytest(TESTS), {} if stand.quick else {"FLYBALL_TESTS": "full"})


TOPIC = Topic(
    "race",
    measure,
    subject="SQLite and PostgreSQL: processes that promote at once, killed writers, a database killed under a writer",
    sample=f"{ROUNDS} rounds of each",
    claims=(
        Claim(
            "race",
            "tests in which both win, the other's error does not name winner and act, or something is lost or partial",
            none(),
            suite_failures(RUN),
        ),
    ),
)
