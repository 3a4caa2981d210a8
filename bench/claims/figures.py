"""Figures that many claims share: ratios of medians, counts of failures, results of test suites.

Each takes names of raw values and returns a pure function from raw values to a figure. Must not know what is claimed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench.claims.bars import per_s, us
from bench.claims.claim import Figure, NotMeasuredError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.claims.bars import Unit
    from bench.claims.claim import Raw

    Figured = Callable[[Raw], Figure]


def over_best(windows: str, ours: str, others: Sequence[str], *, key: str = "", unit: Unit = per_s) -> Figured:
    """Our median over the best median of others: all in windows that were taken in turn."""

    def figure(raw: Raw) -> Figure:
        sides = raw.windows(windows)
        rates = {name: sides.median(name, key) for name in (ours, *others)}
        best = max(others, key=lambda name: rates[name])
        return Figure(rates[ours] / rates[best], f"{unit(rates[ours])}, {best} {unit(rates[best])}")

    return figure


def median_over(windows: str, one: str, other: str, *, key: str = "", unit: Unit = us) -> Figured:
    """One side's median over another's."""

    def figure(raw: Raw) -> Figure:
        sides = raw.windows(windows)
        first, second = sides.median(one, key), sides.median(other, key)
        return Figure(first / second, f"{unit(first)}, {other} {unit(second)}")

    return figure


def median_of(windows: str, side: str, key: str = "", *, scale: float = 1.0) -> Figured:
    """One side's median, in the bar's unit."""
    return lambda raw: Figure(raw.windows(windows).median(side, key) * scale)


def ratio(first: float, second: float) -> float:
    """A quotient; infinite over nothing."""
    return first / second if second else math.inf


def wrong_of(name: str, wrong: str = "wrong", total: str = "total", example: str = "examples") -> Figured:
    """How many of a kept dictionary's cases were wrong, of how many; none at all proves nothing."""

    def figure(raw: Raw) -> Figure:
        found = raw[name]
        if not found[total]:
            raise NotMeasuredError("there was not one case")
        examples = found.get(example) or []
        return Figure(found[wrong], f"of {found[total]:,}" + (f": {examples[0]}" if examples else ""))

    return figure


def suite_failures(name: str, proves: str = "") -> Figured:
    """A test suite's failures; a skipped test was not measured, and a suite that did not end well has failed."""

    def figure(raw: Raw) -> Figure:
        found: Mapping[str, Any] = raw[name]
        if found["skipped"] and not found["failed"] and not found["exit"]:
            raise NotMeasuredError(found["why_skipped"] or f"{found['skipped']} tests were not run")
        fault = ""
        if found["exit"] or not found["passed"]:
            fault = f"ended with {found['exit']}, {found['passed']} passed: {found['end'][-200:]}"
        return Figure(found["failed"], proves or f"{found['passed']:,} passed", fault)

    return figure
