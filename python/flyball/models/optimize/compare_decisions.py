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
    from flyball.decision.decision import Decision

_REQUESTS = 200
_CLOSE = 1e-9


class DecidesOtherwiseError(FlyballError):
    """A decision around an equal model that does not decide alike; the first request that shows it is told."""

    code = "decides_otherwise"
    exit_code = 4


def decides_alike(
    first: Decision, second: Decision, requests: Sequence[Mapping[str, Any]], *, bound: float | None
) -> dict[str, Any]:
    """Both decide in turn; `differ` counts other outcomes. `bound`: how far apart equal models may score; None: not equal.

    Where equal models give the same score, so must be outcome, band, reasons and what each field added. Where they do not,
    the bound says how far apart they may be, and a score beside the beginning of a band may fall on either side of it.
    """
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
    pairs = list(zip(before, after, strict=True))
    wrong = [] if bound is None else [pair for pair in pairs if not _explained(*pair, bound)]
    if wrong:
        was, now = wrong[0]
        raise DecidesOtherwiseError(
            f"{len(wrong)} of {len(asked)} requests are decided otherwise: {_words(was)} became {_words(now)}",
            next_step="serve the decision as it is",
        )
    differ = sum(was.outcome != now.outcome for was, now in pairs)
    return {"requests": len(asked), "differ": differ, "us": [_time(before), _time(after)], "untold": None}


def _decided(decision: Decision, requests: Sequence[Mapping[str, Any]]) -> list[Decided]:
    try:
        return [decision.decide(row, explain=True, timings=True) for row in requests]
    finally:
        decision.close()


def _explained(was: Decided, now: Decided, bound: float) -> bool:
    """Whether models that are equal within the bound may decide so."""
    if not _near(was.score, now.score, bound):
        return False
    return not _near(was.score, now.score, 0.0) or _alike(was, now)


def _alike(was: Decided, now: Decided) -> bool:
    if (was.outcome, was.band, len(was.reasons)) != (now.outcome, now.band, len(now.reasons)):
        return False
    return all(
        (one.code, one.field) == (other.code, other.field) and _near(one.contribution, other.contribution, 0.0)
        for one, other in zip(was.reasons, now.reasons, strict=True)
    )


def _near(one: float | None, other: float | None, bound: float) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= max(bound, _CLOSE * max(1.0, abs(one)))


def _words(decided: Decided) -> str:
    return f"{decided.outcome} ({decided.score})"


def _time(decided: Sequence[Decided]) -> float | None:
    """Median over all stages of a request, in µs."""
    return median(sum(one.timings_us.values()) for one in decided) if decided else None
