"""Topic: processes that promote at once, are killed, or lose their database: those tests, many times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims import suites

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

SUITE = "tests/e2e/test_registry_processes.py"
CLAIM = "two processes that promote at once, 200 rounds each on SQLite and PostgreSQL; writers and the database killed"


def measure(stand: Stand) -> None:
    """Run the suite with hundreds of rounds."""
    more = {} if stand.quick else {"FLYBALL_TESTS": "full"}
    suites.record(stand, CLAIM, suites.pytest(SUITE), more, bar="one wins, the other is told who did what; nothing half")
