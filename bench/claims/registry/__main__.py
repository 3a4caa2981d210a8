"""Run:  python -m bench.claims.registry [--only TOPIC …] [--quick]   from the root; `make claim-registry` builds first."""

from __future__ import annotations

from bench.claims.registry.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
