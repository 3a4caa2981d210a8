"""The topics of `make claim-hardening`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.hardening import again, bypass, hostile_models, kills

SUITE = Suite(
    "hardening",
    "Hardening",
    """`attempts` repeats every fault that attackers and users found. Results of the earlier build (commit 9d7bd48,
unless a line names another) are in `bench/results/published/hardening-before.json.gz`, and stand beside the new ones
in each record.
""",
    (again.TOPIC, bypass.TOPIC, hostile_models.TOPIC, kills.TOPIC),
)
