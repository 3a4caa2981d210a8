"""Topic `kills`: `kill -9` of a server under load, with the journal claim's cycles: 1,000 here, 10,000 at night.

Run the long form with  CYCLES=10000 python -m bench.claims.hardening --only kills. Must not know how a cycle is made.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench.claims.claim import Topic
from bench.claims.journal import crash

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand


def measure(stand: Stand) -> None:
    """No acknowledged decision is lost, whenever the server is killed."""
    crash.measure(stand, int(os.environ.get("CYCLES", crash.CYCLES)))


TOPIC = Topic(
    "kills",
    measure,
    subject=crash.TOPIC.subject,
    sample=f"{crash.CYCLES:,} cycles, CYCLES=10000 for a night",
    claims=crash.CLAIMS,
)
