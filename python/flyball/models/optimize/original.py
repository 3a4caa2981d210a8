"""The reference of every comparison: rows, the original model's answers to them, and the labels, computed once.

The rows are all given rows, and for a numeric table also random rows and edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from flyball.models.equivalence.accuracy import Labels, labels_of
from flyball.models.equivalence.rows import like
from flyball.models.optimize.answers import counted, table_of
from flyball.models.optimize.operators import thresholds_of
from flyball.models.optimize.subject import several_scores
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from flyball.models.optimize.run import Run

ROWS_MIN, ROWS_MAX = 10_000, 100_000
GIVEN, CALIBRATION = "given", "calibration"
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class ComparisonRows:
    """Inputs and the kind of each row; given rows come first, in their order."""

    inputs: dict[str, Any]
    kinds: NDArray[np.str_]

    def without(self, held_out: Sequence[int]) -> NDArray[np.str_]:
        """The kinds, with held-out calibration rows no longer `given`."""
        kinds = self.kinds.astype(object)
        kinds[list(held_out)] = CALIBRATION
        return kinds.astype(str)


def comparison_rows(run: Run) -> ComparisonRows:
    """The rows, the same in every run (seeded)."""
    rows = run.rows
    if not rows.is_table:
        return ComparisonRows(rows.inputs, np.full(rows.count, GIVEN))
    ((name, table),) = rows.inputs.items()
    columns = {str(index): table[:, index].astype(np.float64) for index in range(table.shape[1])}
    gaps = [index for index, column in columns.items() if np.isnan(column).any()]
    thresholds = thresholds_of(run.subject.model)
    edges = 3 * sum(len(set(found)) for found in thresholds.values())  # each threshold and its neighbours
    wanted = min(max(ROWS_MIN, 2 * rows.count, rows.count + 2 * edges), ROWS_MAX)
    made = like(columns, rows=wanted, thresholds=thresholds, gaps=gaps)
    stacked = np.stack(list(made.columns.values()), axis=1).astype(table.dtype)
    return ComparisonRows({name: stacked}, made.kinds)


@dataclass
class Original:
    """The original model."""

    run: Run

    @cached_property
    def comparison_rows(self) -> ComparisonRows:
        """The rows that every candidate gets too."""
        return comparison_rows(self.run)

    @cached_property
    def answers(self) -> NDArray[np.float64]:
        """The relevant answers to all rows."""
        subject = self.run.subject
        found = counted(self._table, subject.element)
        if subject.thresholds and found.ndim > 1:  # the file does not declare the number of elements per row
            raise several_scores(subject.output)
        return found

    def given_only(self, values: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """The part of a per-row array for the given rows, which may have labels."""
        given: NDArray[_Scalar] = values[self.comparison_rows.kinds == GIVEN]
        return given

    @cached_property
    def labels(self) -> Labels | None:
        """The labels of all rows, if known; raises if they do not fit the answers."""
        run, truth = self.run, self.run.rows.labels
        if truth is None:
            return None
        element, classes = run.subject.element, self._table.shape[1]
        if element is not None and classes > 1 and np.isin(truth, np.arange(classes)).all():
            truth = (truth == element).astype(np.float64)  # the score is this class's probability against all others
        threshold = run.subject.thresholds[0] if run.subject.thresholds else 0.5
        return labels_of(truth, self.given_only(self.answers), threshold=threshold)

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        return table_of(Model(self.run.subject.model), self.run.subject.output, self.comparison_rows.inputs)
