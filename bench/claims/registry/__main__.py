"""Run:  python -m bench.claims.registry [--only TOPIC …] [--quick]   from the root; `make claim-registry` builds first."""

from __future__ import annotations

from bench.claims.registry import kill, parts, race, rollback, scale, signing
from bench.claims.topics import run_topics

TOPICS = {
    "scale": scale.measure,
    "race": race.measure,
    "kill": kill.measure,
    "rollback": rollback.measure,
    "parts": parts.measure,
    "signing": signing.measure,
}

if __name__ == "__main__":
    run_topics("registry", TOPICS, __doc__)
