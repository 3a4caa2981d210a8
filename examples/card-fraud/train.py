"""Fits the spec's transforms, trains 300 trees on their columns, and writes the model and its explanation.

The columns are made by the spec's own transforms, so that training and serving cannot drift apart.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from flyball.decision.compile.columns import kinds, open_steps
from flyball.decision.fit.columns import apply
from flyball.decision.fit.learn import complete
from flyball.decision.spec.read import read_spec
from flyball.decision.spec.spec import Spec
from flyball.decision.training.training_rows import fit_spec
from flyball.models import attribution
from flyball.models.convert.from_lightgbm import to_onnx
from flyball.rows.columns import read_columns

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
        warnings.simplefilter("ignore")  # LightGBM's own deprecations
        import lightgbm

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
    model, _, _ = to_onnx(booster, "card-fraud")
    (MADE / "card-fraud.onnx").write_bytes(model)
    attribution.write_trees(booster, MADE / "card-fraud.trees.json")


def _model_columns(spec: Spec) -> list[str]:
    columns: list[str] = spec.model.columns[0].columns
    return columns


if __name__ == "__main__":
    train()
