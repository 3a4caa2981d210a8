"""Run:  python -m bench.claims.tails [--only TOPIC …] [--quick]   from the root; `make claim-tails` builds first."""

from __future__ import annotations

from bench.claims.tails.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
