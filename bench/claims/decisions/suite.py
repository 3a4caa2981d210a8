"""The topics of `make claim-decisions`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.decisions import agree, beside, contributions, mutations, redis, retries, stages

SUITE = Suite(
    "decisions",
    "Decisions",
    """`examples/card-fraud` end to end: validation, two windows and a cached lookup, twelve transforms, 300 trees,
six rules and bands. The server has one core, the generator another. Each request is for its own card, and each window
has its own server, so that counts stay at what a card does in an hour. The FastAPI peer
(`bench/claims/decisions/peer.py`) is the same logic written by hand, without pandas and with its store in memory.
Neither computes contributions there, which flyball otherwise adds to adverse outcomes (some 0.2 ms each).
""",
    (
        stages.TOPIC,
        beside.TOPIC,
        agree.TOPIC,
        contributions.TOPIC,
        redis.TOPIC,
        retries.TOPIC,
        mutations.TOPIC,
    ),
)
