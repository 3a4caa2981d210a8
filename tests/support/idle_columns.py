"""A decision whose trees do not use all of its columns: a window, fitted parameters, rules, reasons, and rows."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from flyball.models import attribution

COLUMNS = ["amount", "idle", "channel=web", "channel=shop", "channel=fax", "spent"]
ASKED = [0, 2, 5]
DECISION = """
decision: loans
owner: desk@example.com
purpose: a decision whose model does not ask all of its columns
slo: {p99: 7ms, timeout: 500ms}
input:
  who: {type: string, key: true, length_max: 32}
  amount: {type: float, min: 0, max: 100000}
  idle: {type: float}
  channel: {type: category, values: [web, shop, fax]}
  note: {type: string, required: false, length_max: 32}
features:
  spent: {window: sum(amount) by who last 1h, on_missing: 0}
transforms:
  - scale: {of: idle, factor: [2], offset: [1]}
  - log1p: amount
  - standardize: [amount]
  - one_hot: channel
fitted: loans.fitted.json
model:
  path: loans.onnx
  columns: [amount, idle, channel=web, channel=shop, channel=fax, spent]
  score: probabilities[1]
  explain: {trees: loans.trees.json}
policy:
  rules:
    - {when: idle > 900.0, then: review, reason: R1}
  bands: {pass: "< 0.5", review: ">= 0.5"}
  reasons: {from: contributions, most: 3, texts: reasons.csv}
  adverse: [review]
"""


def write(made: Path) -> Path:
    """The decision, its model, and rows with what the window would have found; gives the decision's file."""
    random = np.random.default_rng(5)
    rows = random.normal(size=(600, len(COLUMNS))).astype(np.float32)
    rows[:, 1] = 3.0  # constant columns are never split
    rows[:, 2] = random.integers(0, 2, 600)
    rows[:, 3:5] = 0.0
    rows[:, 5] = np.abs(rows[:, 5]) * 100
    truth = (rows[:, 0] + rows[:, 2] + rows[:, 5] / 100 > 1).astype(np.int32)
    _train(made, rows, truth)
    (made / "loans.yaml").write_text(DECISION)
    (made / "reasons.csv").write_text("code,text\nR1,idle is large\namount,the amount\n")
    fitted = {"at": 2, "op": "standardize", "of": ["amount"], "mean": [3.0], "scale": [1.5]}
    (made / "loans.fitted.json").write_text(json.dumps({"format": 1, "rows": 600, "transforms": [fitted]}))
    with (made / "rows.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["who", "amount", "idle", "channel", "spent", "label"])
        for place in range(400):
            amount = float(np.expm1(max(rows[place, 0] * 1.5 + 3.0, 0)))
            table.writerow([f"w{place % 9}", amount, 3.0, "web" if rows[place, 2] else "shop", rows[place, 5], truth[place]])
    return made / "loans.yaml"


def _train(folder: Path, rows: Any, truth: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import lightgbm
        from onnxmltools import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType

        params = {"objective": "binary", "num_leaves": 7, "seed": 5, "verbose": -1, "num_threads": 1}
        booster = lightgbm.train(params, lightgbm.Dataset(rows, truth), num_boost_round=20)
        types = [("input", FloatTensorType([None, len(COLUMNS)]))]
        model = convert_lightgbm(booster, initial_types=types, zipmap=False, target_opset=15)
    (folder / "loans.onnx").write_bytes(model.SerializeToString())
    attribution.write_trees(booster, folder / "loans.trees.json")
