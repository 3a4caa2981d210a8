"""Run:  python -m bench.claims.tails [--only TOPIC …] [--quick]   from the root; `make claim-tails` builds first."""

from __future__ import annotations

from bench.claims.tails import bursts, cores, neighbour, overload, reloads, steady, throughput
from bench.claims.topics import run_topics

TOPICS = {
    "throughput": throughput.measure,
    "steady": steady.measure,
    "overload": overload.measure,
    "bursts": bursts.measure,
    "reloads": reloads.measure,
    "neighbour": neighbour.measure,
    "cores": cores.measure,
}

if __name__ == "__main__":
    run_topics("tails", TOPICS, __doc__)
