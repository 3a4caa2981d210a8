"""A recorded decision as a row that can be decided again: its fields, its features as they were used, and its way.

What cannot be put together again says why. Must not know servers, nor what is compared.
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
class AgainRow:
    """What is sent: the values by name, and the way that the row is made to go."""

    values: dict[str, Any]
    way: dict[str, Any] | None
    explain: bool


@dataclass(frozen=True, slots=True)
class Unready:
    """Why a record cannot be decided again; `erased`: a subject's key is deleted."""

    why: str
    erased: bool = False


def again(record: Json, features: Mapping[str, Json] | None = None) -> AgainRow | Unready:
    """The row of a record. `features` are those of the document: what it computes is computed again."""
    unready = whole(record)
    if unready is not None:
        return unready
    values = dict(record.get("input") or {})
    for name, fact in (record.get("features") or {}).items():
        declared = (features or {}).get(name, {})
        if fact.get("origin") != _COMPUTED and declared.get("compute") is None:
            values[name] = fact.get("value")  # null: missing, as it was, whatever is declared for that
    return AgainRow(values, way_of(record), bool(record.get("explain")))


def whole(record: Json) -> Unready | None:
    """Why not everything that was used is in the record; nothing: it is."""
    kind = record.get("kind")
    if kind != "decision":
        fault = record.get("fault") or ["", "", ""]
        told = (
            f"the row failed ({fault[0]}): there is no decision to compare with"
            if kind == "failed"
            else f"it is of kind {kind}"
        )
        return Unready(told)
    if record.get("personal") == ERASED:
        return Unready("its subject was erased", erased=True)
    if record.get("sampled") is False:
        return Unready("not sampled: its input was not recorded")
    if record.get("masked"):
        return Unready(f"masked: {', '.join(record['masked'])}")
    if record.get("personal") is not None:
        return Unready("its personal fields are sealed; give --kek PLACE")
    if not isinstance(record.get("input"), dict):
        return Unready("its input is not in the log")
    return None


def way_of(record: Json) -> dict[str, Any] | None:
    """How the row is made to go the way that it went; none: by itself."""
    if record.get("route") == _BY_RULES:
        return {"rules": True}
    variant = record.get("variant")
    return None if variant is None else {"variant": variant}


def is_declared(record: Json) -> bool:
    """Whether nobody judged: a remedy declared the outcome."""
    return record.get("route") == _DECLARED
