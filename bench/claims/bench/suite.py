"""The topics of `make claim-bench`."""

from __future__ import annotations

from bench.claims.bench import command, comparisons, overhead, stall, tools
from bench.claims.claim import Suite

SUITE = Suite(
    "bench",
    "The benchmark itself",
    """The server has one core and the generator another. In virtual time the p99 of a server that stalls is exact
(`make test`).
""",
    (stall.TOPIC, overhead.TOPIC, tools.TOPIC, comparisons.TOPIC, command.TOPIC),
)
