"""Rows likely to reveal differences: given rows, random ones with the same values, and edge cases.

A converter's faults hide where data is sparse: at thresholds, at the ends of a range, at missing values and unseen texts.
Seeded, so that a run is repeatable. Must not know models.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Column = NDArray[Any]
    Edge = tuple[str, Any]

KINDS = ("given", "random", "edge")
_SEED = 10
_OF_A_COLUMN_MAX = 2000  # thresholds or categories: a model may have too many to try them all


@dataclass(frozen=True, slots=True)
class Labelled:
    """Columns of equal length, numbers as float64 and texts as objects, and the kind of each row."""

    columns: dict[str, Column]
    kinds: NDArray[np.str_]

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.kinds)


def like(
    given: Mapping[str, Column],
    *,
    rows: int,
    rows_max: int = 0,
    thresholds: Mapping[str, Sequence[float]] | None = None,
    gaps: Sequence[str] = (),
    unseen: Mapping[str, str] | None = None,
    known: Mapping[str, Sequence[Any]] | None = None,
    seed: int = _SEED,
) -> Labelled:
    """Up to half of `rows` as given, the rest random or edges in equal parts; up to `rows_max` if edges need more.

    `gaps` are columns that may be missing, `unseen` gives a column a text absent from training, and `known` lists its
    categories. Each of these and each end of a range is always tried: among thousands of thresholds they would be lost.
    Thresholds fill the remaining rows, evenly over all columns.
    """
    table = {name: _column(column) for name, column in given.items()}
    lengths = {len(column) for column in table.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise InvalidInputError("comparison rows need columns of equal length with at least one row")
    random = np.random.default_rng(seed)
    there = lengths.pop()
    as_given = min(there, -(-rows // 2))
    picked = np.linspace(0, there - 1, as_given).astype(np.intp)
    lone = list(_lone_edges(table, frozenset(gaps), unseen or {}, known or {}))
    split = list(_splits(table, thresholds or {}))
    left = max(rows, min(as_given + 2 * (len(lone) + len(split)), rows_max)) - as_given
    as_edges = max(min((len(lone) + len(split)) * 4, left - left // 2), len(lone))
    as_random = max(left - as_edges, 0)
    bases = random.integers(0, there, as_edges)
    chosen = _chosen(lone, split, as_edges)
    turns = random.permutation(as_edges)
    edges = {name: column[bases] for name, column in table.items()}
    for index, turn in enumerate(turns):
        name, value = chosen[turn]
        edges[name][index] = value
    columns = {
        name: np.concatenate([column[picked], column[random.integers(0, there, as_random)], edges[name]])
        for name, column in table.items()
    }
    kinds = np.repeat(np.array(KINDS), [as_given, as_random, as_edges])
    return Labelled(columns, kinds)


def _column(column: Any) -> Column:
    made = np.asarray(column)
    if made.ndim != 1:
        raise InvalidInputError(f"a column needs one value per row, not the shape {made.shape}")
    return made.astype(np.float64) if made.dtype.kind in "biuf" else made.astype(object)


def _chosen(lone: Sequence[Edge], split: Sequence[Edge], count: int) -> list[Edge]:
    """Select edges: all of them in turn, or all lone ones and a share of each column's thresholds."""
    if len(lone) + len(split) <= count:
        return list(islice(cycle([*lone, *split]), count))
    return [*lone, *_spread(split, count - len(lone))]


def _lone_edges(
    table: Mapping[str, Column], gaps: frozenset[str], unseen: Mapping[str, str], known: Mapping[str, Sequence[Any]]
) -> Iterator[Edge]:
    """A column and a value for it, one edge per row: two faults in one row would hide each other."""
    for name, column in table.items():
        texts = column.dtype == object
        if name in gaps:
            yield name, None if texts else np.nan
        if name in unseen:
            yield name, unseen[name]
        for value in _spread(known.get(name, ()), _OF_A_COLUMN_MAX):
            yield name, value
        if not texts:
            there = column[np.isfinite(column)]
            for value in (there.min(), there.max(), 0.0) if len(there) else (0.0,):
                yield name, float(value)


def _splits(table: Mapping[str, Column], thresholds: Mapping[str, Sequence[float]]) -> Iterator[Edge]:
    """Values around each threshold: its nearest float32, and the one on either side."""
    for name in table:
        for threshold in _spread(sorted(set(thresholds.get(name, ()))), _OF_A_COLUMN_MAX):
            at = np.float32(threshold)
            for value in (np.nextafter(at, np.float32(-np.inf)), at, np.nextafter(at, np.float32(np.inf))):
                yield name, float(value)


def _spread(found: Sequence[Any], most: int) -> Sequence[Any]:
    if len(found) <= most:
        return found
    return [found[int(index)] for index in np.linspace(0, len(found) - 1, most)]
