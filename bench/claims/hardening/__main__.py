"""Run:  python -m bench.claims.hardening [--only TOPIC …] [--quick]   from the root; `make claim-hardening` builds first."""

from __future__ import annotations

from bench.claims.hardening import again, busy, bypass, hostile_models, kills, soak
from bench.claims.topics import run_topics

TOPICS = {
    "attempts": again.measure,
    "bypass": bypass.measure,
    "models": hostile_models.measure,
    "soak": soak.measure,
    "kills": kills.measure,
    "busy": busy.measure,
}

if __name__ == "__main__":
    run_topics("hardening", TOPICS, __doc__)
