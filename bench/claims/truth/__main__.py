"""Run:  python -m bench.claims.truth [--only MUTANT …]   from the root; `make claim-truth` builds what ships first."""

from __future__ import annotations

from bench.claims.topics import run_suite
from bench.claims.truth.suite import SUITE

if __name__ == "__main__":
    run_suite(SUITE)
