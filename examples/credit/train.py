"""Trains trees with monotonic constraints where a lender must justify the direction, and writes their explanation.

More income never hurts an applicant, one more late payment never helps: no reason that is told can be the wrong way round.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from flyball.decision.compile.columns import kinds, open_steps
from flyball.decision.fit.columns import apply
from flyball.decision.spec.read import read_spec
from flyball.models import attribution
from flyball.models.convert.from_lightgbm import to_onnx
from flyball.rows.columns import read_columns

HERE = Path(__file__).resolve().parent
MADE = HERE / "made"
TREES = 120
# 1: more of it never lowers the risk. -1: never raises it. The others may go either way.
DIRECTIONS = {
    "income": -1,
    "debt_to_income": 1,
    "employed_months": -1,
    "late_payments_24m": 1,
    "inquiries_6m": 1,
    "utilisation": 1,
    "oldest_account_months": -1,
}
SETTINGS = {
    "objective": "binary",
    "num_leaves": 15,
    "learning_rate": 0.05,
    "min_data_in_leaf": 40,
    "seed": 7,
    "verbose": -1,
    "num_threads": 1,
    "deterministic": True,
}


def train() -> None:
    """From made/loans.csv to the model and its sidecar."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM's own deprecations
        import lightgbm

    spec, _ = read_spec(HERE / "credit.yaml")
    names = spec.model.columns[0].columns if spec.model else None
    if names is None:
        raise SystemExit("credit.yaml must list the model's columns")
    known = {name: kind for name, kind in kinds(spec).items() if name not in ("applicant_id", "open_default")}
    columns, defaulted = read_columns(MADE / "loans.csv", known, target="defaulted")
    for step in open_steps(spec):
        columns = apply(step, columns)
    rows = np.stack([columns[name] for name in names], axis=1).astype(np.float32)

    settings = {**SETTINGS, "monotone_constraints": [DIRECTIONS.get(name, 0) for name in names]}
    booster = lightgbm.train(settings, lightgbm.Dataset(rows, defaulted, feature_name=names), TREES)
    model, _, _ = to_onnx(booster, "credit")
    (MADE / "credit.onnx").write_bytes(model)
    attribution.write_trees(booster, MADE / "credit.trees.json")


if __name__ == "__main__":
    train()
