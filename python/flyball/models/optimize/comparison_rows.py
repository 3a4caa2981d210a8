"""The rows on which candidates are compared: all given rows, and for a table random rows and edges.

Only numeric tables have edges; for other tensors only the given rows are used. Must not know answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.models.equivalence.rows import like
from flyball.models.optimize.operators import thresholds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from flyball.models.optimize.run import Run

ROWS_MIN, ROWS_MAX = 10_000, 100_000
GIVEN, CALIBRATION = "given", "calibration"


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
