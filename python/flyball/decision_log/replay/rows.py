"""Converts a recorded decision to a row to replay: its fields, its recorded features, and its route.

Gives the reason if that is impossible. Must not know servers or comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    Json = Mapping[str, Any]

ERASED = "erased"
_COMPUTED = "computed"
_BY_RULES = "rules"
_DECLARED = "declared"


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """A row to send: values by name, and the route that it must take."""

    values: dict[str, Any]
    forced_route: dict[str, Any] | None
    explain: bool


@dataclass(frozen=True, slots=True)
class NotReplayable:
    """Why a record cannot be replayed; `erased` if its subject was erased."""

    why: str
    erased: bool = False


def replay_row(record: Json, features: Mapping[str, Json] | None = None) -> ReplayRow | NotReplayable:
    """The row of a record. `features` are the document's: computed features are computed again."""
    missing = not_replayable(record)
    if missing is not None:
        return missing
    values = dict(record.get("input") or {})
    for name, fact in (record.get("features") or {}).items():
        declared = (features or {}).get(name, {})
        if fact.get("origin") != _COMPUTED and declared.get("compute") is None:
            values[name] = fact.get("value")  # null stays missing, whatever default is declared
    return ReplayRow(values, forced_route(record), bool(record.get("explain")))


def not_replayable(record: Json) -> NotReplayable | None:
    """Why a record lacks what a replay needs; None if it is complete."""
    kind = record.get("kind")
    if kind != "decision":
        fault = record.get("fault") or ["", "", ""]
        return NotReplayable(f"the row failed ({fault[0]})" if kind == "failed" else f"its kind is {kind}, not decision")
    if record.get("personal") == ERASED:
        return NotReplayable("its subject was erased", erased=True)
    if record.get("sampled") is False:
        return NotReplayable("not sampled: its input was not recorded")
    if record.get("masked"):
        return NotReplayable(f"masked: {', '.join(record['masked'])}")
    if record.get("personal") is not None:
        return NotReplayable("its personal fields are encrypted; give --journal-kek SOURCE")
    if not isinstance(record.get("input"), dict):
        return NotReplayable("its input is not in the log")
    return None


def forced_route(record: Json) -> dict[str, Any] | None:
    """The route that the replayed row must take; None for any."""
    if record.get("route") == _BY_RULES:
        return {"rules": True}
    variant = record.get("variant")
    return None if variant is None else {"variant": variant}


def is_declared(record: Json) -> bool:
    """Whether a remedy declared the outcome, without policy."""
    return record.get("route") == _DECLARED
