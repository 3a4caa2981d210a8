"""Run:  python -m bench.claims.journal [--only TOPIC …] [--quick]   from the root; `make claim-journal` builds first."""

from __future__ import annotations

from bench.claims.journal.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
