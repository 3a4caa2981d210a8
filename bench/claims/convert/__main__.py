"""Run:  python -m bench.claims.convert [--only TOPIC …] [--quick]   from the root; `make claim-convert` builds first."""

from __future__ import annotations

from bench.claims.convert.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
