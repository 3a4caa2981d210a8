"""Compares two models' answers to the same rows: errors, rows beyond a bound, and flipped decisions.

A missing answer equals only a missing answer. Must not know where answers come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flyball.errors import InvalidInputError
from flyball.models.equivalence.document import Document
from flyball.models.equivalence.segments import SkippedSegment, segments_of
from flyball.statistics.intervals import wilson

Floats = NDArray[np.float64]


_WORST_MAX = 20


class Flips(Document):
    """Rows that change sides of a threshold, or change class if none is given; with an interval."""

    threshold: float | None
    rows: int
    flips: int
    share: float
    low: float
    high: float


class Worst(Document):
    """A row with a large difference: its index, its kind, and both answers."""

    row: int
    kind: str
    expected: list[float | None]
    found: list[float | None]


class Errors(Document):
    """Absolute differences over some rows. `beyond`: rows outside the bound, including those with one missing answer."""

    rows: int
    beyond: int
    max_abs: float
    mean_abs: float
    p99_abs: float


class Comparison(Document):
    """The whole comparison: over all rows, by kind of row, and the worst rows.

    An answer may differ by `bound` plus `relative` times its size (`allowed`).
    """

    bound: float
    relative: float = 0.0
    all: Errors
    by_kind: dict[str, Errors]
    flips: list[Flips]
    worst: list[Worst]

    @property
    def rows_by_kind(self) -> dict[str, int]:
        """The number of rows of each kind."""
        return {kind: errors.rows for kind, errors in self.by_kind.items()}

    @property
    def equal(self) -> bool:
        """Whether every row is within the bound."""
        return self.all.beyond == 0

    @property
    def allowed(self) -> str:
        """The allowed difference as text."""
        return f"{self.bound:g}" + (f" + {self.relative:g} of the answer" if self.relative else "")


def allowed(expected: Floats, bound: float, relative: float) -> Floats:
    """The allowed difference of each answer. Its size counts as at least its column's median.

    Float sums are off by the size of their terms, even where the sum is small. One large answer widens only its own bound,
    and an infinite one none.
    """
    known: Floats = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    return bound + relative * np.maximum(known, np.median(known, axis=0))


def compare(
    expected: Floats,
    found: Floats,
    *,
    bound: float,
    relative: float = 0.0,
    kinds: Sequence[str] | NDArray[np.str_],
    thresholds: Sequence[float] = (),
    flips_of: str | None = None,
) -> Comparison:
    """Compare two arrays of answers: a score per row, or one per row and class.

    `flips_of` counts flips only in rows of one kind: flips of generated rows say nothing about real ones.
    """
    if not (math.isfinite(bound) and bound >= 0):
        raise InvalidInputError(f"the bound {bound} is not allowed", next_step="use a finite number of 0 or more")
    first, second = _table(expected), _table(found)
    if first.size and not np.isfinite(first).any() and np.array_equal(first, second, equal_nan=True):
        raise InvalidInputError(
            f"neither model returns a finite number for any of {len(first):,} rows, so nothing is compared",
            next_step="pass rows that the original answers",
        )
    if first.shape != second.shape or len(first) != len(kinds) or first.size == 0:
        raise InvalidInputError(
            f"answers of shape {first.shape} and {second.shape} to {len(kinds)} rows cannot be compared",
            next_step="run both models on the same rows, one or more, with an output of the same shape",
        )
    named = np.asarray(kinds)
    each = _apart(first, second)
    apart: Floats = each.max(axis=1)
    far: NDArray[np.bool_] = np.any(each > allowed(first, bound, relative), axis=1)
    counted = named == flips_of if flips_of is not None else np.ones(len(named), dtype=bool)
    return Comparison(
        bound=bound,
        relative=relative,
        all=_errors(apart, far),
        by_kind={str(kind): _errors(apart[named == kind], far[named == kind]) for kind in dict.fromkeys(named.tolist())},
        flips=_flips(first[counted], second[counted], thresholds),
        worst=[
            Worst(row=int(row), kind=str(named[row]), expected=_values(first[row]), found=_values(second[row]))
            for row in np.lexsort((-apart, ~far))[:_WORST_MAX]  # beyond the bound first, largest difference first
            if apart[row] > 0
        ],
    )


def flips_by_segment(
    expected: Floats, found: Floats, segments: NDArray[np.generic], thresholds: Sequence[float] = ()
) -> tuple[dict[str, list[Flips]], list[SkippedSegment]]:
    """Flips in each segment, and the skipped segments; needs no labels."""
    first, second = _table(expected), _table(found)
    chosen, left_out = segments_of(segments)
    return {name: _flips(first[rows], second[rows], thresholds) for name, rows in chosen.items()}, left_out


def _table(answers: Floats) -> Floats:
    made = np.asarray(answers, dtype=np.float64)
    return made.reshape(len(made), -1)


def _apart(first: Floats, second: Floats) -> Floats:
    """The difference of each pair of answers; infinite if only one is missing."""
    with np.errstate(invalid="ignore"):
        apart = np.where(first == second, 0.0, np.abs(first - second))
    missing = np.isnan(first), np.isnan(second)
    each: Floats = np.where(missing[0] & missing[1], 0.0, np.where(missing[0] | missing[1], np.inf, apart))
    return each


def _errors(apart: Floats, far: NDArray[np.bool_]) -> Errors:
    finite = np.where(np.isfinite(apart), apart, np.finfo(np.float64).max)  # JSON has no infinity
    return Errors(
        rows=len(apart),
        beyond=int(far.sum()),
        max_abs=float(finite.max()),
        mean_abs=float(np.minimum(finite, 1e300).mean()),
        p99_abs=float(np.quantile(finite, 0.99, method="higher")),
    )


def _flips(first: Floats, second: Floats, thresholds: Sequence[float]) -> list[Flips]:
    if thresholds:
        if first.shape[1] != 1:
            raise InvalidInputError(
                f"a threshold applies to one score, but answers have {first.shape[1]} elements per row",
                next_step="select the output element that is the score",
            )
        was, now = first[:, 0], second[:, 0]
        lost = np.isnan(was) != np.isnan(now)  # a missing score is on neither side; comparisons with NaN are false
        return [_flip(threshold, lost | ((was >= threshold) != (now >= threshold))) for threshold in thresholds]
    if first.shape[1] > 1:
        return [_flip(None, _classes(first) != _classes(second))]
    return []


def _classes(answers: Floats) -> NDArray[np.intp]:
    """The class of each row; rows with a missing answer form their own class."""
    chosen: NDArray[np.intp] = np.where(np.isnan(answers).any(axis=1), -1, np.nan_to_num(answers).argmax(axis=1))
    return chosen


def _flip(threshold: float | None, flipped: NDArray[np.bool_]) -> Flips:
    rows, flips = len(flipped), int(flipped.sum())
    share = wilson(flips, rows)
    return Flips(threshold=threshold, rows=rows, flips=flips, share=flips / rows, low=share.low, high=share.high)


def _values(answers: Floats) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in answers]
