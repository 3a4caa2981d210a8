"""Confidence intervals of rates and of paired rate differences; closed formulas, no random draws.

Wilson's score interval, and Newcombe's for paired proportions (1998, method 10), which combines two of Wilson's. Must not
know what is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its interval; 0 to 1 without any rows."""

    value: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Pairs:
    """Counts of rows by two yes-or-no questions: both, only the first, only the second, neither."""

    both: int
    first: int
    second: int
    neither: int

    @property
    def rows(self) -> int:
        """The total."""
        return self.both + self.first + self.second + self.neither


def wilson(hits: int, rows: int, level: float = LEVEL) -> Rate:
    """The share of hits among rows."""
    if rows == 0:
        return Rate(None, 0.0, 1.0)
    z = _z(level)
    share, shrink = hits / rows, 1 + z * z / rows
    centre = (share + z * z / (2 * rows)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    # At the ends the formula is exact up to rounding, which must not exclude the value from its own interval.
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    high = 1.0 if hits == rows else min(1.0, centre + half)
    return Rate(share, low, high)


def difference(pairs: Pairs, level: float = LEVEL) -> Rate:
    """The second question's share minus the first's, over the same rows."""
    rows = pairs.rows
    if rows == 0:
        return Rate(None, -1.0, 1.0)
    second = wilson(pairs.both + pairs.second, rows, level)
    first = wilson(pairs.both + pairs.first, rows, level)
    together = _correlation(pairs)
    moved = _value(second) - _value(first)
    low = moved - _length(_value(second) - second.low, first.high - _value(first), together)
    high = moved + _length(second.high - _value(second), _value(first) - first.low, together)
    return Rate(moved, max(-1.0, low), min(1.0, high))


def mean_interval(values: list[float], level: float = LEVEL) -> Rate:
    """The mean by the normal approximation, for many rows."""
    if not values:
        return Rate(None, -math.inf, math.inf)
    count, mean = len(values), math.fsum(values) / len(values)
    if count == 1:
        return Rate(mean, -math.inf, math.inf)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = _z(level) * math.sqrt(variance / count)
    return Rate(mean, mean - half, mean + half)


def _correlation(pairs: Pairs) -> float:
    """Phi of the two answers, with Newcombe's continuity correction."""
    sides = (
        (pairs.both + pairs.first)
        * (pairs.second + pairs.neither)
        * (pairs.both + pairs.second)
        * (pairs.first + pairs.neither)
    )
    if sides == 0:
        return 0.0
    product = pairs.both * pairs.neither - pairs.first * pairs.second
    corrected = max(product - pairs.rows / 2, 0.0) if product > 0 else float(product)
    return corrected / math.sqrt(sides)


def _length(one: float, other: float, together: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * together * one * other + other * other))


def _value(rate: Rate) -> float:
    return rate.value if rate.value is not None else math.nan


def _z(level: float) -> float:
    return NormalDist().inv_cdf(0.5 + level / 2)
