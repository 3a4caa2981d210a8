"""Bars: a number, how it is compared, and its text, which is made from both so that they cannot differ.

Must not know claims.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.bench.table import latency, percent

if TYPE_CHECKING:
    from collections.abc import Callable

    Unit = Callable[[float], str]

_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}


def times(value: float) -> str:
    """A ratio."""
    return f"{value:.3g} times" if value < 10 else f"{value:.1f} times"


def share(value: float) -> str:
    """A share of a whole."""
    return percent(value) if value >= 0 else f"−{percent(-value)}"


def us(value: float) -> str:
    """A time that is kept in microseconds."""
    return latency(value)


def ms(value: float) -> str:
    """A time that is kept in milliseconds."""
    return latency(value * 1e3)


def seconds(value: float) -> str:
    """A time that is kept in seconds."""
    return latency(value * 1e6)


def minutes(value: float) -> str:
    """A time that is kept in minutes."""
    return f"{value:.1f} minutes"


def per_s(value: float) -> str:
    """A rate."""
    return f"{value:,.0f}/s"


def count(value: float) -> str:
    """A whole number of things."""
    return f"{value:,.0f}"


def plain(value: float) -> str:
    """A number without a unit, in a few digits."""
    return f"{value:.2g}"


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure must be. `also` names conditions besides, which the figure states as its fault."""

    sign: str
    limit: float
    unit: Unit
    also: str = ""

    @property
    def judges(self) -> bool:
        """Whether it can fail."""
        return bool(self.sign)

    @property
    def text(self) -> str:
        """As people read it."""
        if not self.sign:
            return "shown, without a bar"
        limit = "none" if (self.sign, self.limit) == ("=", 0) else f"{self.sign} {_exact(self.limit, self.unit)}"
        return f"{limit}, {self.also}" if self.also else limit

    def holds(self, value: float) -> bool:
        """Whether a value meets it; what is not a number meets nothing."""
        return not self.sign or (math.isfinite(value) and _SIGNS[self.sign](value, self.limit))

    def shown(self, value: float) -> str:
        """A value in the bar's unit."""
        return self.unit(value) if math.isfinite(value) else "never" if value > 0 else "no number"


def _exact(limit: float, unit: Unit) -> str:
    """The limit with all of its digits: a text that rounds would hide a changed number."""
    if unit is times:
        return f"{limit:.10g} times"
    if unit is share:
        return f"{limit * 100:.10g} %"
    if unit in (us, ms, seconds):
        in_us = limit * (1 if unit is us else 1e3 if unit is ms else 1e6)
        scale, name = (1e6, "s") if in_us >= 1e6 else (1e3, "ms") if in_us >= 1e3 else (1, "µs")
        return f"{in_us / scale:.10g} {name}"
    after = "/s" if unit is per_s else " minutes" if unit is minutes else ""
    return f"{limit:,.10g}{after}"


def at_most(limit: float, unit: Unit = count, also: str = "") -> Bar:
    """No more than this."""
    return Bar("<=", limit, unit, also)


def at_least(limit: float, unit: Unit = count, also: str = "") -> Bar:
    """No less than this."""
    return Bar(">=", limit, unit, also)


def below(limit: float, unit: Unit = count, also: str = "") -> Bar:
    """Less than this."""
    return Bar("<", limit, unit, also)


def exactly(limit: float, unit: Unit = count, also: str = "") -> Bar:
    """This and nothing else."""
    return Bar("=", limit, unit, also)


def none(also: str = "") -> Bar:
    """Not one: no failure, no wrong answer."""
    return Bar("=", 0, count, also)


def shown(unit: Unit) -> Bar:
    """A figure that is printed and judged by nobody."""
    return Bar("", 0, unit)
