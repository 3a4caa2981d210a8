"""Synthetic card payments, and gradient-boosted trees that score them. Must not know servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.documents.onnx_graph import tidied
from flyball.errors import needing

if TYPE_CHECKING:
    from pathlib import Path

FRAUD_FIELDS = (
    "amount",
    "hour",
    "country_risk",
    "merchant_risk",
    "payments_1h",
    "spent_1h",
    "card_age_days",
    "distance_km",
    "is_online",
    "is_night",
    "amount_to_usual",
    "failed_pins_24h",
)


def fraud_rows(count: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Synthetic card payments with fraud labels: skewed amounts, a rare class, interacting fields."""
    random = np.random.default_rng(seed)
    amount = random.lognormal(3.2, 1.1, count)
    hour = random.integers(0, 24, count).astype(float)
    country = random.beta(1.2, 8, count)
    merchant = random.beta(1.5, 6, count)
    payments = random.poisson(1.2, count).astype(float)
    spent = payments * random.lognormal(3.0, 0.8, count)
    age = random.gamma(2.0, 400, count)
    distance = random.exponential(60, count)
    online = (random.random(count) < 0.4).astype(float)
    night = ((hour < 6) | (hour > 22)).astype(float)
    usual = amount / random.lognormal(3.2, 0.6, count)
    pins = random.poisson(0.15, count).astype(float)
    logit = (
        -6.2
        + 0.9 * np.log1p(amount / 40)
        + 5.0 * country
        + 2.5 * merchant
        + 0.5 * payments
        + 0.7 * pins
        + 0.8 * night * online
        + 0.6 * np.log1p(usual)
        + 0.004 * distance * (1 - online)
        - 0.0008 * age
    )
    fraud = (random.random(count) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    columns = [amount, hour, country, merchant, payments, spent, age, distance, online, night, usual, pins]
    return np.stack(columns, axis=1).astype(np.float32), fraud


def make_fraud_gbdt(path: Path, trees: int = 300, seed: int = 7) -> Path:
    """Train a LightGBM classifier on synthetic payments and convert it; outputs `label` and `probabilities`."""
    with needing("the demo needs more packages", extra="demo"):
        import lightgbm
        import onnx  # noqa: F401 - the converter wants it, and its own words for that do not name the extra
        from onnxmltools.convert import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType
    rows, fraud = fraud_rows(20_000, seed)
    settings = {
        "objective": "binary",
        "num_leaves": 31,
        "learning_rate": 0.05,
        "seed": seed,
        "verbose": -1,
        "num_threads": 1,
    }
    booster = lightgbm.train(
        {**settings, "deterministic": True}, lightgbm.Dataset(rows, fraud, feature_name=list(FRAUD_FIELDS)), trees
    )
    inputs = [("input", FloatTensorType([None, rows.shape[1]]))]
    model = convert_lightgbm(booster, initial_types=inputs, zipmap=False, target_opset=15)
    path.write_bytes(tidied(model, "fraud"))
    return path
