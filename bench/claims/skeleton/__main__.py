"""Run:  python -m bench.claims.skeleton [--only TOPIC …] [--quick]   from the root; `make claim-skeleton` builds first."""

from __future__ import annotations

from bench.claims.skeleton.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
