"""Explains models without trees: coefficients and means of a linear model, a baseline for any other.

Both are small enough for the spec itself, and have the form of its `explain` block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyball.errors import UsageError
from flyball.models.attribution.ensemble import direction, one_of


def linear_block(model: Any, rows: NDArray[Any], *, element: int | None = None) -> dict[str, dict[str, list[float]]]:
    """`explain: {linear: …}` of a fitted linear model; `rows` are its training rows and give the means.

    A column contributes its coefficient times its distance from the mean to the raw margin.
    """
    if not hasattr(model, "coef_"):
        raise UsageError(f"a {type(model).__name__} has no coefficients, or is not fitted")
    coefficients = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    sets, columns = coefficients.shape
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != columns:
        raise UsageError(f"the model has {columns} columns; the rows have shape {table.shape}")
    if sets == 1:
        chosen = coefficients[0] * direction(element, two_classes=hasattr(model, "classes_"))
    else:
        chosen = coefficients[one_of(sets, element)]
    return {"linear": {"coefficients": chosen.tolist(), "means": np.nanmean(_filled(table), axis=0).tolist()}}


def ablation_block(rows: NDArray[Any]) -> dict[str, dict[str, list[float]]]:
    """`explain: {ablation: …}` with each column's median over typical rows as baseline."""
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] == 0:
        raise UsageError(f"cannot take a baseline from rows of shape {table.shape}")
    return {"ablation": {"baseline": np.nanmedian(_filled(table), axis=0).tolist()}}


def _filled(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Put 0 into columns without any value: they have neither mean nor median."""
    return np.where(np.isnan(table).all(axis=0), 0.0, table)
