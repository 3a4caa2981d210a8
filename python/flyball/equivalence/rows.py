"""Rows that would show a difference: those that were given, random ones with the same values, and edges.

A converter's faults hide where data is thin: at thresholds, at the ends of a column's range, where a value is missing or
a text was never seen. Seeded, so that a run can be repeated. Must not know models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Column = NDArray[Any]

KINDS = ("given", "random", "edge")
_SEED = 10
_THRESHOLDS_MAX = 2000  # of a column: an ensemble may have more splits than anybody wants rows


@dataclass(frozen=True, slots=True)
class Labelled:
    """Columns of equal length, numbers as float64 and texts as objects, and for each row of which kind it is."""

    columns: dict[str, Column]
    kinds: NDArray[np.str_]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.kinds)

    def row(self, place: int) -> dict[str, Any]:
        """One row as a caller would send it: what is missing is None."""
        return {name: _plain(column[place]) for name, column in self.columns.items()}


def like(
    given: Mapping[str, Column],
    *,
    rows: int,
    thresholds: Mapping[str, Sequence[float]] | None = None,
    gaps: Sequence[str] = (),
    unseen: Mapping[str, str] | None = None,
    seed: int = _SEED,
) -> Labelled:
    """So many rows: up to half as given, the others random or edges in equal parts.

    `gaps` are columns where a value may be missing; `unseen` gives for a column a text that training never saw.
    """
    table = {name: _column(column) for name, column in given.items()}
    lengths = {len(column) for column in table.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise InvalidInputError("rows to compare need columns of one length, with one row or more")
    random = np.random.default_rng(seed)
    there = lengths.pop()
    as_given = min(there, -(-rows // 2))
    picked = np.linspace(0, there - 1, as_given).astype(np.intp)
    edges = list(_edges(table, thresholds or {}, frozenset(gaps), unseen or {}))
    as_edges = min(len(edges) * 4, rows - as_given - (rows - as_given) // 2) if edges else 0
    as_random = rows - as_given - as_edges
    columns = {}
    bases = random.integers(0, there, as_edges)
    # Where there are more edges than rows, some of every column: the first columns' alone would leave the others untried.
    turns = np.arange(as_edges) % len(edges) if len(edges) <= as_edges else np.linspace(0, len(edges) - 1, as_edges)
    chosen = [edges[int(place)] for place in random.permutation(turns)] if as_edges else []
    for name, column in table.items():
        edge = column[bases].copy()
        for place, (where, value) in enumerate(chosen):
            if where == name:
                edge[place] = value
        drawn = column[random.integers(0, there, as_random)]
        columns[name] = np.concatenate([column[picked], drawn, edge])
    kinds = np.repeat(np.array(KINDS), [as_given, as_random, as_edges])
    return Labelled(columns, kinds)


def _column(column: Any) -> Column:
    made = np.asarray(column)
    if made.ndim != 1:
        raise InvalidInputError(f"a column has one value for each row, not the shape {made.shape}")
    return made.astype(np.float64) if made.dtype.kind in "biuf" else made.astype(object)


def _edges(
    table: Mapping[str, Column], thresholds: Mapping[str, Sequence[float]], gaps: frozenset[str], unseen: Mapping[str, str]
) -> Iterator[tuple[str, Any]]:
    """A column and a value to put there, one at a time: two faults in one row would hide each other."""
    for name, column in table.items():
        if column.dtype == object:
            if name in gaps:
                yield name, None
            if name in unseen:
                yield name, unseen[name]
            continue
        if name in gaps:
            yield name, np.nan
        there = column[np.isfinite(column)]
        for value in (there.min(), there.max(), 0.0) if len(there) else (0.0,):
            yield name, float(value)
        for threshold in _spread(thresholds.get(name, ())):
            # As the model sees it: a float32 on either side, and the nearest one itself.
            at = np.float32(threshold)
            for value in (np.nextafter(at, np.float32(-np.inf)), at, np.nextafter(at, np.float32(np.inf))):
                yield name, float(value)


def _spread(thresholds: Sequence[float]) -> Sequence[float]:
    found = sorted(set(thresholds))
    if len(found) <= _THRESHOLDS_MAX:
        return found
    return [found[int(place)] for place in np.linspace(0, len(found) - 1, _THRESHOLDS_MAX)]


def _plain(value: Any) -> Any:
    """For JSON, which knows no NaN."""
    if isinstance(value, float | np.floating):
        return None if np.isnan(value) else float(value)
    return value
