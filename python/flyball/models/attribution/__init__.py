"""What a model needs beside it to be explained: a sidecar with its trees and covers, coefficients, or a baseline.

Used where a model is trained and converted; the data plane reads what is written here. Must not know decisions or servers,
and needs no library but the one that trained the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import UsageError
from flyball.models.attribution import from_lightgbm, from_sklearn, from_xgboost, linear
from flyball.models.attribution.trained_by import trained_by
from flyball.native import decisions

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from flyball.models.attribution.ensemble import Ensemble

__all__ = ["ablation_block", "contributions", "linear_block", "trees_sidecar", "write_trees"]

linear_block = linear.linear_block
ablation_block = linear.ablation_block
_ENSEMBLES = {"lightgbm": from_lightgbm.ensemble, "xgboost": from_xgboost.ensemble, "sklearn": from_sklearn.ensemble}


def trees_sidecar(model: Any, *, element: int | None = None) -> bytes:
    """The sidecar of a tree ensemble that LightGBM, XGBoost or scikit-learn trained, as bytes that the data plane has read.

    `element` is the element of the model's output that is the score: for two classes 1 unless you say 0, for more of
    them you must say it. Contributions then push that element up or down.
    """
    ensemble = _ensemble(model, element)
    sidecar = ensemble.to_json()
    decisions.contributions(sidecar, b"", ensemble.columns)
    return sidecar


def write_trees(model: Any, path: Path, *, element: int | None = None) -> Path:
    """Write the sidecar beside the model, by custom `NAME.trees.json`; the spec names it under `explain: {trees: …}`."""
    path.write_bytes(trees_sidecar(model, element=element))
    return path


def contributions(sidecar: bytes, rows: NDArray[Any]) -> NDArray[np.float64]:
    """For each row what each column added to the raw margin, and in a last column the base; by the data plane's own code.

    A row's figures add up to its raw margin. `rows` is what the model gets; it is taken as float32.
    """
    given = np.ascontiguousarray(rows, dtype="<f4")
    if given.ndim != 2 or given.shape[1] == 0:
        raise UsageError(f"rows of shape {given.shape} cannot be explained", next_step="give a table: rows × columns")
    count, columns = given.shape
    answer = decisions.contributions(sidecar, given.tobytes(), columns)
    return np.frombuffer(answer, dtype="<f8").reshape(count, columns + 1).astype(np.float64)


def _ensemble(model: Any, element: int | None) -> Ensemble:
    package = trained_by(model, _ENSEMBLES)
    if package is not None:
        return _ENSEMBLES[package](model, element)
    raise UsageError(
        f"a {type(model).__name__} cannot be explained by its trees",
        next_step="give a model of LightGBM, XGBoost or scikit-learn, or explain by ablation:"
        "  flyball.models.attribution.ablation_block(rows)",
    )
