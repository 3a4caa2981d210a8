"""Runs the same requests through two decisions in this process, and reports differences: the proof of the whole folder.

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


class DecisionsDifferError(FlyballError):
    """A decision around an equal model decides differently; the message has the first such request."""

    code = "decides_otherwise"
    exit_code = 4


def compare_decisions(
    first: Decision, second: Decision, requests: Sequence[Mapping[str, Any]], *, bound: float | None
) -> dict[str, Any]:
    """Compare two decisions; `differ` counts different outcomes. `bound`: tolerance between equal models; None: not equal.

    With the same score, outcome, band, reasons and contributions must match. With different scores, the bound limits the
    difference, and a score next to a band's edge may fall on either side.
    """
    sent = requests[:_REQUESTS]
    try:
        before = _decided(first, sent)
    except FlyballError as error:  # a refused row or an unavailable source: report it, because nothing was proven
        return {"requests": 0, "differ": 0, "us": None, "error": error.message}
    try:
        after = _decided(second, sent)
    except FlyballError as error:
        raise DecisionsDifferError(
            f"with the chosen model one of {len(sent)} requests fails: {error.message}",
            next_step="serve the original decision",
        ) from error
    pairs = list(zip(before, after, strict=True))
    wrong = [] if bound is None else [pair for pair in pairs if not _explained(*pair, bound)]
    if wrong:
        was, now = wrong[0]
        raise DecisionsDifferError(
            f"{len(wrong)} of {len(sent)} requests are decided differently: {_shown(was)} became {_shown(now)}",
            next_step="serve the original decision",
        )
    differ = sum(was.outcome != now.outcome for was, now in pairs)
    return {"requests": len(sent), "differ": differ, "us": [_time(before), _time(after)], "error": None}


def _decided(decision: Decision, requests: Sequence[Mapping[str, Any]]) -> list[Decided]:
    try:
        return [decision.decide(row, explain=True, timings=True) for row in requests]
    finally:
        decision.close()


def _explained(was: Decided, now: Decided, bound: float) -> bool:
    """Whether models that are equal within the bound may differ like this."""
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


def _shown(decided: Decided) -> str:
    return f"{decided.outcome} ({decided.score})"


def _time(decided: Sequence[Decided]) -> float | None:
    """Median over all stages of a request, in µs."""
    return median(sum(one.timings_us.values()) for one in decided) if decided else None
