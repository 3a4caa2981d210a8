"""Run:  python -m bench.claims.ease [--only TOPIC …]   from the root; `make claim-ease` builds the wheel first."""

from __future__ import annotations

from bench.claims.ease.suite import SUITE
from bench.claims.topics import run_suite

if __name__ == "__main__":
    run_suite(SUITE)
