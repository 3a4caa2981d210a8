"""The topics of `make claim-registry`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.registry import kill, parts, race, rollback, scale, signing

SUITE = Suite(
    "registry",
    "The registry",
    """versitygw and the public `model_signing` tool are installed first (go, uv). Killed processes, and commands
during which parts are killed, are forked from a process that has everything imported.
""",
    (scale.TOPIC, race.TOPIC, kill.TOPIC, rollback.TOPIC, parts.TOPIC, signing.TOPIC),
)
