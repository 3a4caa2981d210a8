"""Run:  python -m bench.claims.journal [--only TOPIC …] [--quick]   from the root; `make claim-journal` builds first."""

from __future__ import annotations

from bench.claims.journal import crash, erase, path, pour, replay, suites, sync
from bench.claims.topics import run_topics

TOPICS = {
    "path": path.measure,
    "sync": sync.measure,
    "pour": pour.measure,
    "crash": crash.measure,
    "disk": suites.disk,
    "faults": suites.faults,
    "tamper": suites.tamper,
    "replay": replay.measure,
    "candidate": replay.measure_candidate,
    "erase": erase.measure,
    "fuzz": suites.fuzz,
}

if __name__ == "__main__":
    run_topics("journal", TOPICS, __doc__)
