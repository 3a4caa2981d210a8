"""Seeded perceptrons: large, memory-bound ones, and one in INT8. Must not know servers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from flyball.bench.models.extras import checked_model, without_advice
from flyball.errors import needing

if TYPE_CHECKING:
    from pathlib import Path


def make_mlp(path: Path, sizes: tuple[int, ...] = (64, 1024, 1024, 1024, 1024, 1), seed: int = 7) -> Path:
    """A float32 perceptron with ReLUs; by default 12.9 MB of weights, large enough to be memory-bound."""
    with needing("the demo needs more packages", extra="demo"):
        import onnx
        from onnx import helper, numpy_helper
    random = np.random.default_rng(seed)
    nodes, weights = [], []
    here = "input"
    for index, (wide, narrow) in enumerate(pairwise(sizes)):
        last = index == len(sizes) - 2
        matrix = (random.standard_normal((wide, narrow)) / np.sqrt(wide)).astype(np.float32)
        bias = (random.standard_normal(narrow) * 0.1).astype(np.float32)
        weights += [numpy_helper.from_array(matrix, f"w{index}"), numpy_helper.from_array(bias, f"b{index}")]
        there = "output" if last else f"dense{index}"
        nodes.append(helper.make_node("Gemm", [here, f"w{index}", f"b{index}"], [there]))
        if not last:
            nodes.append(helper.make_node("Relu", [there], [f"relu{index}"]))
            there = f"relu{index}"
        here = there
    model = checked_model("mlp", nodes, weights, ("FLOAT", [None, sizes[0]]), [None, sizes[-1]])
    onnx.save(model, path)
    return path


def make_fraud_mlp_12mb(path: Path, seed: int = 7) -> Path:
    """64 → 1200 → 1200 → 1200 → 1, the perceptron of the published scenario: 11.8 MB of weights."""
    return make_mlp(path, sizes=(64, 1200, 1200, 1200, 1), seed=seed)


def make_int8_mlp(path: Path, seed: int = 7) -> Path:
    """A dynamically quantised small perceptron: its scale spans the batch, so rows influence each other."""
    with needing("the demo needs more packages", extra="demo"):
        from onnxruntime.quantization import QuantType, quantize_dynamic
    whole = make_mlp(path.with_suffix(".fp32.onnx"), sizes=(32, 128, 128, 1), seed=seed)
    with without_advice():
        quantize_dynamic(whole, path, weight_type=QuantType.QInt8)
    whole.unlink()
    return path
