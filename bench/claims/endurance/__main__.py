"""Run:  python -m bench.claims.endurance [--only TOPIC …] [--quick]   from the root; `make claim-endurance` builds first."""

from __future__ import annotations

from bench.claims.endurance.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
