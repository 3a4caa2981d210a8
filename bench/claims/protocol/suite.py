"""The topics of `make claim-protocol`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.protocol import analyzer, beside, rates

SUITE = Suite(
    "protocol",
    "The protocol",
    """The server has one core, and the generator shares another with the clients that behave badly. Limits are the
server's defaults, except the number of connections. `make conformance` writes the results of third-party clients to
[conformance](reference/conformance.md).
""",
    (beside.TOPIC, rates.TOPIC, analyzer.TOPIC),
)
