"""Run:  python -m bench.claims.bench [--only TOPIC …] [--quick]   from the root; `make claim-bench` builds first."""

from __future__ import annotations

from bench.claims.bench.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
