"""Compares a replayed decision with the recorded one: bit-exact, within tolerance, or different, and where.

Must not know how it was replayed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.client import Decided

    Json = Mapping[str, Any]

TOLERANCE = 1e-6
_REMEDIES = {
    "model_not_ready": "model_unavailable",
    "breaker_open": "model_unavailable",
    "run_failed": "model_unavailable",
    "run_memory_exceeded": "model_unavailable",
    "run_stopped": "model_unavailable",
    "panicked": "model_unavailable",
    "deadline_unreachable": "timeout",
    "deadline_passed": "timeout",
    "in_flight_full": "queue_full",
    "lane_full": "queue_full",
    "wait_too_long": "queue_full",
    "memory_full": "queue_full",
    "feature_unavailable": "feature_error",
    "fields_invalid": "invalid_input",
    "guard_violated": "guard_violated",
    "record_failed": "record_error",
}
"""The remedy that a kind of fault meets, as `crates/plane/src/remedies.rs` has it."""


class Class(StrEnum):
    """The result of comparing a replayed decision with the recorded one."""

    BIT_EXACT = "bit-exact"
    WITHIN = "within tolerance"
    DIFFERS = "differs"
    ERASED = "erased"
    CANNOT = "cannot"


KEPT = (Class.BIT_EXACT, Class.WITHIN)


@dataclass(frozen=True, slots=True)
class Compared:
    """The class, with notes: the differences, or why it cannot be replayed."""

    cls: Class
    notes: tuple[str, ...] = ()
    scores: bool = False
    """Whether a score differs in any bit."""


def compare(record: Json, decided: Decided, tolerance: float = TOLERANCE) -> Compared:
    """Compare a record with its row decided again."""
    differences = [
        f"{name} {shown(record.get(name))} → {shown(got)}"
        for name, got in (("outcome", decided.outcome), ("band", decided.band))
        if record.get(name) != got
    ]
    differences += _reasons(record, decided)
    numbers = [*_scores(record, decided), *_contributions(record, decided)]
    moved = [name for name, was, now in numbers if not same_bits(was, now)]
    differences += [f"{name} {shown(was)} → {shown(now)}" for name, was, now in numbers if not near(was, now, tolerance)]
    if differences:
        return Compared(Class.DIFFERS, tuple(differences), bool(moved))
    if moved:
        return Compared(Class.WITHIN, tuple(f"{name} is not bit-exact" for name in moved), True)
    return Compared(Class.BIT_EXACT)


def compare_declared(record: Json, document: Json) -> Compared:
    """Compare an outcome declared by a remedy with the document's declaration."""
    remedy = record.get("remedy") or {}
    cause = str(remedy.get("cause"))
    declared = (document.get("remedies") or {}).get(_REMEDIES.get(cause, ""))
    outcome = declared.get("outcome") if isinstance(declared, Mapping) else None
    if outcome != record.get("outcome"):
        return Compared(Class.DIFFERS, (f"outcome {record.get('outcome')} → {outcome}, declared for {cause}",))
    return Compared(Class.BIT_EXACT, (f"declared for {cause}; no model ran",))


def same_bits(was: object, now: object) -> bool:
    """Whether two numbers are bit-identical; the sign of zero counts, and NaN equals NaN."""
    one, other = _number(was), _number(now)
    if one is None or other is None:
        return one is other
    return struct.pack("<d", one) == struct.pack("<d", other) or (math.isnan(one) and math.isnan(other))


def near(was: object, now: object, tolerance: float) -> bool:
    """Whether two numbers are equal within the relative tolerance."""
    one, other = _number(was), _number(now)
    if one is None or other is None:
        return one is other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=0.0)


def _scores(record: Json, decided: Decided) -> list[tuple[str, object, object]]:
    """The score, and each model's score if several ran."""
    found: list[tuple[str, object, object]] = [("score", record.get("score"), decided.score)]
    recorded = record.get("scores") or {}
    # A remedy may have run other models before those of the replayed route.
    for name, now in decided.scores.items():
        was = _number(recorded.get(name))
        # A response has null for a non-finite score.
        found.append((f"score of {name}", None if was is not None and not math.isfinite(was) else was, now))
    return found


def _reasons(record: Json, decided: Decided) -> list[str]:
    """Compare the rules' codes in order; the model's only if recorded: a late answer omits them."""
    recorded = record.get("reasons") or []
    was = [item["code"] for item in recorded if item.get("contribution") is None]
    now = [reason.code for reason in decided.reasons if reason.contribution is None]
    differences = [] if was == now else [f"rules' reasons {_listed(was)} → {_listed(now)}"]
    was = [f"{item['code']} by {item.get('field')}" for item in recorded if item.get("contribution") is not None]
    now = [f"{reason.code} by {reason.field}" for reason in decided.reasons if reason.contribution is not None]
    return [*differences, f"the model's reasons {_listed(was)} → {_listed(now)}"] if was and was != now else differences


def _contributions(record: Json, decided: Decided) -> list[tuple[str, object, object]]:
    was = [item for item in record.get("reasons") or [] if item.get("contribution") is not None]
    now = [reason for reason in decided.reasons if reason.contribution is not None]
    if [(item["code"], item.get("field")) for item in was] != [(reason.code, reason.field) for reason in now]:
        return []
    return [
        (f"contribution of {reason.field}", item["contribution"], reason.contribution)
        for item, reason in zip(was, now, strict=True)
    ]


def _number(value: object) -> float | None:
    """A number in a record: non-finite ones are text."""
    return float(value) if isinstance(value, int | float | str) else None


def _listed(codes: list[str]) -> str:
    return ", ".join(codes) or "none"


def shown(value: object) -> str:
    """The value as text; None as \"none\"."""
    return "none" if value is None else str(value)
