"""Run:  python -m bench.claims.decisions [--only TOPIC …] [--quick]   from the root; `make claim-decisions` builds first."""

from __future__ import annotations

from bench.claims.decisions.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
