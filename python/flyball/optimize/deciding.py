"""Decides the same requests by two decisions, in this process, and tells where they differ: the proof of the whole folder.

Must not know what was changed between them.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.client import Decided
    from flyball.spec import Decision

_REQUESTS = 200
_CLOSE = 1e-9


class DecidesOtherwiseError(FlyballError):
    """A decision around an equal model that does not decide alike; the first request that shows it is told."""

    code = "decides_otherwise"
    exit_code = 4


def decides_alike(
    first: Decision, second: Decision, requests: Sequence[Mapping[str, Any]], *, equal: bool
) -> dict[str, Any]:
    """Both decide in turn. Where their models are equal, so must be outcomes, scores, reasons and what each field added."""
    asked = requests[:_REQUESTS]
    try:
        before = _decided(first, asked)
    except FlyballError as error:  # a row that is refused, a source that is away: told, for nothing was proven then
        return {"requests": 0, "differ": 0, "us": None, "untold": error.message}
    try:
        after = _decided(second, asked)
    except FlyballError as error:
        raise DecidesOtherwiseError(
            f"the decision as it is decides {len(asked)} requests, and around the chosen model one fails: {error.message}",
            next_step="serve the decision as it is",
        ) from error
    differ = [place for place, pair in enumerate(zip(before, after, strict=True)) if not _alike(*pair)]
    if equal and differ:
        was, now = before[differ[0]], after[differ[0]]
        raise DecidesOtherwiseError(
            f"{len(differ)} of {len(asked)} requests are decided otherwise: {_words(was)} became {_words(now)}",
            next_step="serve the decision as it is",
        )
    return {"requests": len(asked), "differ": len(differ), "us": [_time(before), _time(after)], "untold": None}


def _decided(decision: Decision, requests: Sequence[Mapping[str, Any]]) -> list[Decided]:
    try:
        return [decision.decide(row, explain=True, timings=True) for row in requests]
    finally:
        decision.close()


def _alike(was: Decided, now: Decided) -> bool:
    if (was.outcome, was.band, len(was.reasons)) != (now.outcome, now.band, len(now.reasons)):
        return False
    scores = _close(was.score, now.score)
    return scores and all(
        (one.code, one.field) == (other.code, other.field) and _close(one.contribution, other.contribution)
        for one, other in zip(was.reasons, now.reasons, strict=True)
    )


def _close(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and abs(one - other) <= _CLOSE * max(1.0, abs(one)))


def _words(decided: Decided) -> str:
    return f"{decided.outcome} ({decided.score})"


def _time(decided: Sequence[Decided]) -> float | None:
    """Median over all stages of a request, in µs."""
    return median(sum(one.timings_us.values()) for one in decided) if decided else None
