"""What explains a model without trees: coefficients and means of a linear one, a baseline for any other.

Both are small enough to stand in the spec itself, and are given as its `explain` has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def linear_block(model: Any, rows: NDArray[Any], *, element: int | None = None) -> dict[str, dict[str, list[float]]]:
    """`explain: {linear: …}` of a fitted linear model; `rows` is what it was fitted on, and gives the means.

    A column's contribution to the raw margin is its coefficient times how far it lies from its mean.
    """
    if not hasattr(model, "coef_"):
        raise UsageError(f"a {type(model).__name__} has no coefficients, or is not fitted")
    coefficients = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    sets, columns = coefficients.shape
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != columns:
        raise UsageError(f"the model has {columns} columns, the rows have the shape {table.shape}")
    if sets == 1:
        two = hasattr(model, "classes_")
        if element not in ((None, 0, 1) if two else (None, 0)):
            raise UsageError(f"the model has no element {element} of its output")
        chosen = -coefficients[0] if two and element == 0 else coefficients[0]
    elif element is None or not 0 <= element < sets:
        raise UsageError(f"say which of the {sets} classes is the score:  element=0 to {sets - 1}")
    else:
        chosen = coefficients[element]
    return {"linear": {"coefficients": chosen.tolist(), "means": np.nanmean(_filled(table), axis=0).tolist()}}


def ablation_block(rows: NDArray[Any]) -> dict[str, dict[str, list[float]]]:
    """`explain: {ablation: …}` with the median of each column of typical rows as its baseline."""
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] == 0:
        raise UsageError(f"a baseline cannot be taken from rows of the shape {table.shape}")
    return {"ablation": {"baseline": np.nanmedian(_filled(table), axis=0).tolist()}}


def _filled(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """With 0 in columns that are missing everywhere: those have neither mean nor median."""
    return np.where(np.isnan(table).all(axis=0), 0.0, table)
