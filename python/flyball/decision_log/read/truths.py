"""True outcomes of decisions: the last one of each counts. Must not know what they are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container

    from flyball.native.journal import JournalLog


def truths_of(log: JournalLog, decision: str, ids: Container[str]) -> dict[str, Any]:
    """True outcomes by decision id. A later record replaces an earlier one, whatever its own time."""
    outcomes = log.records(kinds=["outcome"], decision=decision)
    return {record["id"]: record.get("truth") for record in outcomes if record["id"] in ids}
