"""The topics of `make claim-skeleton`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.skeleton import int8, lanes, one_connection, start, throughput

SUITE = Suite(
    "skeleton",
    "Speed",
    "",
    (throughput.TOPIC, one_connection.TOPIC, start.TOPIC, lanes.TOPIC, int8.TOPIC),
)
