"""The topics of `make claim-tails`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.tails import bursts, cores, neighbour, overload, reloads, steady, throughput

SUITE = Suite(
    "tails",
    "Tails",
    """The server has one core and the generator another, unless a line says otherwise. Pictures, and the curves of
other servers, are on the page [performance](performance.md).
""",
    (
        throughput.TOPIC,
        steady.TOPIC,
        overload.TOPIC,
        bursts.TOPIC,
        reloads.TOPIC,
        neighbour.TOPIC,
        cores.TOPIC,
    ),
)
