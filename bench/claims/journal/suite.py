"""The topics of `make claim-journal`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.journal import crash, erase, path, pour, replay, suites, sync

SUITE = Suite(
    "journal",
    "The decision journal",
    """`examples/card-fraud` with a journal on the machine's own disk; the server has one core, the generator another,
and windows with and without a journal alternate. `make crash` runs the topic of that name alone.
""",
    (
        path.TOPIC,
        sync.TOPIC,
        pour.TOPIC,
        crash.TOPIC,
        suites.DISK,
        suites.FAULTS,
        suites.TAMPER,
        replay.TOPIC,
        replay.CANDIDATE,
        erase.TOPIC,
        suites.FUZZ,
    ),
)
