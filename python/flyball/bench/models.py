"""Models that the demo, the claims and the benchmarks serve; all seeded, so that two machines measure the same.

Needs the extra: pip install 'flyball[demo]'. Must not know servers.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import MissingExtraError

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
_OPSET = 17  # old enough for every runtime that we take, new enough for all operators here
_IR_VERSION = 9


def fraud_rows(count: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Synthetic card payments and whether each was fraud: skewed amounts, a rare class, fields that act together."""
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
    """Train a LightGBM classifier on synthetic payments and convert it; answers `label` and `probabilities`."""
    try:
        import lightgbm
        import onnx
        from onnxmltools.convert import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType
    except ImportError as error:
        raise missing_demo(error) from error
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
    _free_batch_axis(model)
    onnx.save(model, path)
    return path


def make_mlp(path: Path, sizes: tuple[int, ...] = (64, 1024, 1024, 1024, 1024, 1), seed: int = 7) -> Path:
    """A float32 perceptron with ReLUs; by default 12.9 MB of weights, large enough to be bound by memory."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise missing_demo(error) from error
    random = np.random.default_rng(seed)
    nodes, weights = [], []
    here = "input"
    for place, (wide, narrow) in enumerate(pairwise(sizes)):
        last = place == len(sizes) - 2
        matrix = (random.standard_normal((wide, narrow)) / np.sqrt(wide)).astype(np.float32)
        bias = (random.standard_normal(narrow) * 0.1).astype(np.float32)
        weights += [numpy_helper.from_array(matrix, f"w{place}"), numpy_helper.from_array(bias, f"b{place}")]
        there = "output" if last else f"dense{place}"
        nodes.append(helper.make_node("Gemm", [here, f"w{place}", f"b{place}"], [there]))
        if not last:
            nodes.append(helper.make_node("Relu", [there], [f"relu{place}"]))
            there = f"relu{place}"
        here = there
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [None, sizes[0]])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [None, sizes[-1]])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def make_int8_mlp(path: Path, seed: int = 7) -> Path:
    """The dynamically quantised form of a small perceptron: its scale spans the batch, so rows influence each other."""
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise missing_demo(error) from error
    whole = make_mlp(path.with_suffix(".fp32.onnx"), sizes=(32, 128, 128, 1), seed=seed)
    logging.disable(logging.WARNING)  # it advises pre-processing, which would change nothing here
    try:
        quantize_dynamic(whole, path, weight_type=QuantType.QInt8)
    finally:
        logging.disable(logging.NOTSET)
    whole.unlink()
    return path


def missing_demo(error: ImportError) -> MissingExtraError:
    """The error for a part of the `demo` extra that is not installed."""
    return MissingExtraError(
        f"the demo's parts are not installed ({error})", next_step="install them:  pip install 'flyball[demo]'"
    )


def _free_batch_axis(model: Any) -> None:
    """The converter declares one row of outputs where the operator gives as many as came in."""
    for output in model.graph.output:
        dimensions = output.type.tensor_type.shape.dim
        if dimensions:
            dimensions[0].Clear()
            dimensions[0].dim_param = "rows"
