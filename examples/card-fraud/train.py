"""Fits the spec's transforms, trains 300 trees on what they give, and writes the model and what explains it.

The columns are made by the spec's own transforms, so that training and serving cannot drift apart.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from flyball import explain
from flyball.fit import apply, complete, read_columns
from flyball.spec import Spec, kinds, open_steps
from flyball.spec.fitting import fit_spec
from flyball.spec.read import read_spec

HERE = Path(__file__).resolve().parent
SPEC = HERE / "card-fraud.yaml"
MADE = HERE / "made"
TREES = 300
SETTINGS = {
    "objective": "binary",
    "num_leaves": 31,
    "learning_rate": 0.03,
    "min_data_in_leaf": 30,
    "feature_fraction": 0.8,
    "seed": 7,
    "verbose": -1,
    "num_threads": 1,
    "deterministic": True,
}


def train() -> None:
    """From made/payments.csv to the model, its fitted parameters and its sidecar."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the converters' own deprecations
        import lightgbm
        from onnxmltools.convert import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType

    spec, origin = read_spec(SPEC)
    payments = MADE / "payments.csv"
    fitted = fit_spec(spec, HERE, origin, payments, target="fraud")
    fitted.write(MADE / "card-fraud.fitted.json")

    columns, fraud = read_columns(payments, kinds(spec), target="fraud")
    for step in complete(open_steps(spec), fitted):
        columns = apply(step, columns)
    names = _model_columns(spec)
    rows = np.stack([columns[name] for name in names], axis=1).astype(np.float32)

    booster = lightgbm.train(SETTINGS, lightgbm.Dataset(rows, fraud, feature_name=names), TREES)
    types = [("input", FloatTensorType([None, len(names)]))]
    model = convert_lightgbm(booster, initial_types=types, zipmap=False, target_opset=15)
    _free_rows(model)
    model.graph.name = "card-fraud"  # the converter's is random, and the digest would be another each time
    (MADE / "card-fraud.onnx").write_bytes(model.SerializeToString())
    explain.write_trees(booster, MADE / "card-fraud.trees.json")


def _model_columns(spec: Spec) -> list[str]:
    columns: list[str] = spec.model.columns[0].columns
    return columns


def _free_rows(model: Any) -> None:
    """The converter declares one row of outputs where the operator gives as many as came in."""
    for output in model.graph.output:
        dimensions = output.type.tensor_type.shape.dim
        dimensions[0].Clear()
        dimensions[0].dim_param = "rows"


if __name__ == "__main__":
    train()
