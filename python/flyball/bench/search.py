"""Bisects for the highest rate that meets an SLO. Pure: it calls a function that tries a rate.

Two measures against noise: a yes needs several windows, and whole bisections are repeated from other starting points, whose
spread gives the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

RATE_MIN, RATE_MAX = 1.0, 1_000_000.0
_CONFIRMS_MAX = 5

Tried = Literal["kept", "broken", "unknown"]


@dataclass(frozen=True, slots=True)
class Bracket:
    """A met and a missed rate. None: not even the lowest was met; or none was missed, or it is unknown."""

    kept: float | None
    broken: float | None


class Bisection:
    """One search; `unknown` is set if a rate was inconclusive, so that the true rate may be above the result."""

    def __init__(self, attempt: Callable[[float], Tried], *, step: float, precision: float) -> None:
        self._attempt = attempt
        self._step = step
        self._precision = precision
        self.unknown = False

    def run(self, start: float) -> Bracket:
        """Find a bracket around the limit, narrow it, and confirm it."""
        found = self._narrowed(self._around(min(max(start, RATE_MIN), RATE_MAX), self._step))
        for _ in range(_CONFIRMS_MAX):
            # The highest of many tries is the luckiest: it must pass once more, or the next lower one must.
            if found.kept is None or self._try(found.kept) == "kept":
                return found
            lower = max(found.kept / (1 + self._precision), RATE_MIN)
            if self._try(lower) == "kept":
                return Bracket(lower, found.kept)
            found = self._narrowed(self._around(lower, 1 + 3 * self._precision))
        return Bracket(None, found.broken)

    def _around(self, start: float, step: float) -> Bracket:
        """Go up or down from `start` by `step` until the result changes."""
        rate, tried = start, self._try(start)
        if tried == "kept":
            while rate < RATE_MAX:
                higher = min(rate * step, RATE_MAX)
                tried = self._try(higher)
                if tried != "kept":
                    return Bracket(rate, higher if tried == "broken" else None)
                rate = higher
            return Bracket(rate, None)
        broken = rate if tried == "broken" else None
        while rate > RATE_MIN:
            rate = max(rate / step, RATE_MIN)
            tried = self._try(rate)
            if tried == "kept":
                return Bracket(rate, broken)
            broken = rate if tried == "broken" else broken
        return Bracket(None, broken)

    def _narrowed(self, found: Bracket) -> Bracket:
        """Halve the (logarithmic) distance down to the precision."""
        kept, broken = found.kept, found.broken
        while kept is not None and broken is not None and broken / kept > 1 + self._precision:
            middle = math.sqrt(kept * broken)
            tried = self._try(middle)
            if tried == "unknown":
                return Bracket(kept, None)
            kept, broken = (middle, broken) if tried == "kept" else (kept, middle)
        return Bracket(kept, broken)

    def _try(self, rate: float) -> Tried:
        tried = self._attempt(rate)
        self.unknown = self.unknown or tried == "unknown"
        return tried
