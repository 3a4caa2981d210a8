"""Run:  python -m bench.claims.hardening [--only TOPIC …] [--quick]   from the root; `make claim-hardening` builds first."""

from __future__ import annotations

from bench.claims.hardening.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
