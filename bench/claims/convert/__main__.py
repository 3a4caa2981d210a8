"""Run:  python -m bench.claims.convert [--only TOPIC …] [--quick]   from the root; `make claim-convert` builds first."""

from __future__ import annotations

from bench.claims.convert import equal, folded, killed, quantise, served
from bench.claims.topics import run_topics

TOPICS = {
    "equal": equal.measure,
    "quantise": quantise.measure,
    "served": served.measure,
    "killed": killed.measure,
    "folded": folded.measure,
}

if __name__ == "__main__":
    run_topics("convert", TOPICS, __doc__)
