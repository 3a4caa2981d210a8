"""Builds what explains a model: a tree sidecar, linear coefficients, or an ablation baseline.

Used at training and conversion time; the data plane reads the result. Must not know decisions or servers, and needs only
the library that trained the model.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyball.errors import UsageError
from flyball.models.attribution import from_lightgbm, from_sklearn, from_xgboost
from flyball.models.attribution.ensemble import Ensemble
from flyball.models.attribution.linear import ablation_block, linear_block
from flyball.native import decisions

__all__ = ["ablation_block", "contributions", "linear_block", "trained_by", "trees_sidecar", "write_trees"]

_ENSEMBLES = {"lightgbm": from_lightgbm.ensemble, "xgboost": from_xgboost.ensemble, "sklearn": from_sklearn.ensemble}


def trees_sidecar(model: Any, *, element: int | None = None) -> bytes:
    """Sidecar bytes of a LightGBM, XGBoost or scikit-learn tree ensemble, validated by the data plane.

    `element` selects the output element that is the score. With two classes it defaults to 1; with more it is required.
    Contributions then push that element up or down.
    """
    ensemble = _ensemble(model, element)
    sidecar = ensemble.to_json()
    decisions.contributions(sidecar, b"", ensemble.columns)
    return sidecar


def write_trees(model: Any, path: Path, *, element: int | None = None) -> Path:
    """Write the sidecar, by convention `NAME.trees.json`; the spec names it under `explain: {trees: …}`."""
    path.write_bytes(trees_sidecar(model, element=element))
    return path


def contributions(sidecar: bytes, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Each column's contribution to the raw margin of each row, with the base in the last column.

    Computed by the data plane's own code. Each row sums to its raw margin. `rows` are the model's inputs, cast to float32.
    """
    given = np.ascontiguousarray(rows, dtype="<f4")
    if given.ndim != 2 or given.shape[1] == 0:
        raise UsageError(f"cannot explain rows of shape {given.shape}", next_step="pass a 2-D array: rows × columns")
    count, columns = given.shape
    answer = decisions.contributions(sidecar, given.tobytes(), columns)
    return np.frombuffer(answer, dtype="<f8").reshape(count, columns + 1).astype(np.float64)


def trained_by(model: Any, packages: Container[str]) -> str | None:
    """The package of the model's class or its nearest base class; does not import the package."""
    roots = (kind.__module__.partition(".")[0] for kind in type(model).__mro__)
    return next((root for root in roots if root in packages), None)


def _ensemble(model: Any, element: int | None) -> Ensemble:
    package = trained_by(model, _ENSEMBLES)
    if package is not None:
        return _ENSEMBLES[package](model, element)
    raise UsageError(
        f"cannot explain a {type(model).__name__} by its trees",
        next_step="use a LightGBM, XGBoost or scikit-learn model, or explain by ablation:"
        "  flyball.models.attribution.ablation_block(rows)",
    )
