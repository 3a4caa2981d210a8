"""The topics of `make claim-endurance`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.endurance import busy, soak_claims

SUITE = Suite(
    "endurance",
    "Endurance",
    "",
    (soak_claims.TOPIC, busy.TOPIC),
)
