"""The highest rate that keeps a promise, by bisection. Pure: it is given a function that tries a rate.

A try answers yes or no, or raises; noise is met by repeating whole bisections, whose spread gives the interval.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

RATE_MIN, RATE_MAX = 1.0, 1_000_000.0


def highest_rate(keeps: Callable[[float], bool], start: float, *, step: float, precision: float) -> float | None:
    """The highest rate known to be kept, within `precision` of one that is not; None where not even `RATE_MIN` is.

    From `start` it goes up or down by `step` until the answer changes, then halves the (logarithmic) distance.
    """
    kept, broken = _bracket(keeps, min(max(start, RATE_MIN), RATE_MAX), step)
    if kept is None or broken is None:
        return kept
    while broken / kept > 1 + precision:
        middle = math.sqrt(kept * broken)
        if keeps(middle):
            kept = middle
        else:
            broken = middle
    return kept


def _bracket(keeps: Callable[[float], bool], start: float, step: float) -> tuple[float | None, float | None]:
    """A rate that is kept and one that is not; None where the limits of all rates end the way."""
    rate = start
    if keeps(rate):
        while rate < RATE_MAX:
            higher = min(rate * step, RATE_MAX)
            if not keeps(higher):
                return rate, higher
            rate = higher
        return rate, None
    while rate > RATE_MIN:
        lower = max(rate / step, RATE_MIN)
        if keeps(lower):
            return lower, rate
        rate = lower
    return None, rate
