"""Networks with trained last layers over random ones, so that accuracy can be lost.

A perceptron of 12 MB on card payments, a small CNN on pictures of 224 × 224, and a perceptron that 8 bits must hurt.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from flyball.bench.models.fraud import fraud_rows
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Array = np.ndarray[Any, np.dtype[Any]]

SIDE, ANGLES = 224, 6
_WIDTHS = (12, 1200, 1200, 1200)
_CHANNELS = (3, 32, 64, 128, 128)
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Trained:
    """A model, and rows that it has not seen, with their truth."""

    model: Path
    rows: Path
    labels: str = "label"


def perceptron(folder: Path, rows: int) -> Trained:
    """12 → 1200 → 1200 → 1200 → 2: 11.6 MB of weights, on card payments, scaled as anybody would."""
    raw, truth = fraud_rows(rows * 2, seed=21)
    mean, scale = raw.mean(axis=0), raw.std(axis=0)
    table = ((raw - mean) / scale).astype(np.float32)
    body, weights = _dense_body(_WIDTHS, np.random.default_rng(7))
    signature = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["rows", _WIDTHS[0]])
    return _with_head(folder / "perceptron.onnx", signature, body, weights, learnt=(table, truth), width=_WIDTHS[-1])


def spoilt(folder: Path, rows: int) -> Trained:
    """The same, small, but one input is in millionths and another in millions: one scale for both loses the first."""
    raw, truth = fraud_rows(rows * 2, seed=22)
    table = ((raw - raw.mean(axis=0)) / raw.std(axis=0)).astype(np.float32)
    widths = (12, 64)
    body, weights = _dense_body(widths, np.random.default_rng(8))
    stretch = np.full(widths[0], 1e-3, np.float32)
    stretch[0] = 1e3  # the amount alone decides the scale of the tensor
    weights = [numpy_helper.from_array(1 / stretch, "unstretch"), *weights]
    body = [helper.make_node("Mul", ["input", "unstretch"], ["plain"]), *body]
    body[1].input[0] = "plain"
    signature = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["rows", widths[0]])
    return _with_head(folder / "spoilt.onnx", signature, body, weights, learnt=(table * stretch, truth), width=widths[-1])


def pictures_net(folder: Path, rows: int) -> Trained:
    """Four convolutions over pixels, a mean and six scores: 160 million multiplications a picture."""
    random = np.random.default_rng(9)
    weights = [numpy_helper.from_array(np.array(1 / 255, np.float32), "scale")]
    body = [
        helper.make_node("Cast", ["input"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["pixels", "scale"], ["scaled"]),
    ]
    here = "scaled"
    for place, (taken, given) in enumerate(pairwise(_CHANNELS)):
        kernel = (random.standard_normal((given, taken, 3, 3)) * np.sqrt(2 / (9 * taken))).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"k{place}"))
        window: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        body.append(helper.make_node("Conv", [here, f"k{place}"], [f"conv{place}"], **window))
        here = f"relu{place}"
        body.append(helper.make_node("Relu", [f"conv{place}"], [here]))
    body += [
        helper.make_node("GlobalAveragePool", [here], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    signature = helper.make_tensor_value_info("input", TensorProto.UINT8, ["rows", 3, SIDE, SIDE])
    return _with_head(
        folder / "pictures.onnx",
        signature,
        body,
        weights,
        learnt=_pictures(rows * 2, seed=10),
        width=_CHANNELS[-1],
        trust=1.0,
    )


def _pictures(count: int, seed: int) -> tuple[Array, Array]:
    """Stripes in about one of six directions under noise."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, ANGLES, count)
    across, down = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    made = np.empty((count, 3, SIDE, SIDE), np.uint8)
    for place, label in enumerate(truth):
        angle = (label + random.uniform(-0.1, 0.1)) * np.pi / ANGLES
        wave = np.sin((across * np.cos(angle) + down * np.sin(angle)) * 2 * np.pi / random.uniform(6, 9))
        noise = random.normal(0, 60, (3, SIDE, SIDE))
        made[place] = np.clip(128 + 50 * wave + noise, 0, 255)
    return made, truth


def _dense_body(widths: Sequence[int], random: np.random.Generator) -> tuple[list[Any], list[Any]]:
    nodes, weights, here = [], [], "input"
    for place, (wide, narrow) in enumerate(pairwise(widths)):
        matrix = (random.standard_normal((wide, narrow)) * np.sqrt(2 / wide)).astype(np.float32)
        bias = (random.standard_normal(narrow) * 0.1).astype(np.float32)
        weights += [numpy_helper.from_array(matrix, f"w{place}"), numpy_helper.from_array(bias, f"b{place}")]
        there = "features" if place == len(widths) - 2 else f"relu{place}"
        nodes += [
            helper.make_node("Gemm", [here, f"w{place}", f"b{place}"], [f"dense{place}"]),
            helper.make_node("Relu", [f"dense{place}"], [there]),
        ]
        here = there
    return nodes, weights


def _with_head(
    path: Path,
    signature: Any,
    body: list[Any],
    weights: list[Any],
    *,
    learnt: tuple[Array, Array],
    width: int,
    trust: float = 0.1,
) -> Trained:
    """Fit the last layer on the first half of the rows by what the body makes of them; the second half is kept.

    `trust`: in the rows; the less, the smaller its weights are kept.
    """
    from sklearn.linear_model import LogisticRegression

    table, truth = learnt
    half = len(table) // 2
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["rows", width])
    _save(path, helper.make_graph(body, "body", [signature], [features], weights))
    model = Model(path)
    seen = [model.run({"input": table[place : place + _AT_ONCE]})["features"] for place in range(0, half, _AT_ONCE)]
    inside = np.concatenate(seen)[:half]
    mean, scale = inside.mean(axis=0), inside.std(axis=0) + 1e-6
    fitted = LogisticRegression(max_iter=300, C=trust).fit((inside - mean) / scale, truth[:half])
    two = len(fitted.classes_) == 2
    coefficients = np.vstack([np.zeros_like(fitted.coef_[0]), fitted.coef_[0]]) if two else fitted.coef_
    offsets = np.array([0.0, fitted.intercept_[0]]) if two else fitted.intercept_
    matrix = (coefficients / scale).T
    bias = offsets - (coefficients / scale) @ mean
    weights = [
        *weights,
        numpy_helper.from_array(matrix.astype(np.float32), "head"),
        numpy_helper.from_array(bias.astype(np.float32), "offset"),
    ]
    body = [
        *body,
        helper.make_node("Gemm", ["features", "head", "offset"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]
    scores = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["rows", len(bias)])
    _save(path, helper.make_graph(body, path.stem, [signature], [scores], weights))
    kept = path.with_suffix(".npz")
    np.savez(kept, input=table[half:], label=truth[half:])
    return Trained(path, kept)


def _save(path: Path, graph: Any) -> None:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
