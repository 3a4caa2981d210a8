"""Run:  python -m bench.claims.compat [--only TOPIC …] [--quick]   from the root; `make claim-compat` builds first."""

from __future__ import annotations

from bench.claims.compat.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
