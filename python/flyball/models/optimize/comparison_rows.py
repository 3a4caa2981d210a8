"""The rows that a candidate must answer as the original does: all given ones, and for a table random ones and edges too.

Only tables of numbers have edges to try; for other tensors the given rows are all there is. Must not know answers.
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
class AskedRows:
    """Inputs, and of which kind each row is; given rows come first, in their order."""

    inputs: dict[str, Any]
    kinds: NDArray[np.str_]

    def without(self, held_out: Sequence[int]) -> NDArray[np.str_]:
        """The kinds, where some given rows are no longer such: a candidate was made from them, so they do not judge it."""
        kinds = self.kinds.astype(object)
        kinds[list(held_out)] = CALIBRATION
        return kinds.astype(str)


def asked_rows(run: Run) -> AskedRows:
    """Seeded, so that every run asks the same."""
    rows = run.rows
    if not rows.is_table:
        return AskedRows(rows.inputs, np.full(rows.count, GIVEN))
    ((name, table),) = rows.inputs.items()
    columns = {str(place): table[:, place].astype(np.float64) for place in range(table.shape[1])}
    gaps = [place for place, column in columns.items() if np.isnan(column).any()]
    thresholds = thresholds_of(run.subject.model)
    edges = 3 * sum(len(set(found)) for found in thresholds.values())  # each threshold and its neighbours
    wanted = min(max(ROWS_MIN, 2 * rows.count, rows.count + 2 * edges), ROWS_MAX)
    made = like(columns, rows=wanted, thresholds=thresholds, gaps=gaps)
    stacked = np.stack(list(made.columns.values()), axis=1).astype(table.dtype)
    return AskedRows({name: stacked}, made.kinds)
