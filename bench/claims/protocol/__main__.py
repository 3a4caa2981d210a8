"""Run:  python -m bench.claims.protocol [--only TOPIC …] [--quick]   from the root; `make claim-protocol` builds first."""

from __future__ import annotations

from bench.claims.protocol.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
