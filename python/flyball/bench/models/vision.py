"""A small image classifier in static INT8, and pictures for it. Must not know servers.

It takes pixel bytes, as clients of a vision service send them, and scales them itself.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.bench.models.extras import checked_model, without_advice
from flyball.errors import needing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SIDE = 224
_CLASSES = 10
_CHANNELS = (3, 64, 128, 256, 512, 512)  # 830 million multiplications per picture: about 5 ms on one core with VNNI
_CALIBRATION_PICTURES = 16


def pictures(count: int, seed: int) -> Iterator[np.ndarray[Any, Any]]:
    """Pictures of 7 × 7 coloured patches under noise, one at a time, as uint8 [1, 3, 224, 224]."""
    random = np.random.default_rng(seed)
    patch = _SIDE // 7
    for _ in range(count):
        coarse = random.integers(0, 224, (1, 3, 7, 7), np.uint8).repeat(patch, axis=2).repeat(patch, axis=3)
        yield coarse + random.integers(0, 32, (1, 3, _SIDE, _SIDE), np.uint8)


def make_vision_cnn_int8(path: Path, seed: int = 7) -> Path:
    """Five convolutions of stride 2, a mean and ten scores; per-channel INT8, calibrated with seeded pictures."""
    with needing("the demo needs more packages", extra="demo"):
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.calibrate import CalibrationDataReader

    class Calibration(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._pictures = pictures(_CALIBRATION_PICTURES, seed)

        def get_next(self) -> dict[str, Any] | None:
            picture = next(self._pictures, None)
            return None if picture is None else {"input": picture}

    with without_advice():
        quantize_static(
            _float_cnn(seed),
            path,
            Calibration(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            # Seven bits: eight overflow on cores without VNNI, and answers would depend on the machine.
            reduce_range=True,
        )
    return path


def _float_cnn(seed: int) -> Any:
    with needing("the demo needs more packages", extra="demo"):
        from onnx import TensorProto, helper, numpy_helper
    random = np.random.default_rng(seed)
    weights = [numpy_helper.from_array(np.array(1 / 255, np.float32), "scale")]
    nodes = [
        helper.make_node("Cast", ["input"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["pixels", "scale"], ["scaled"]),
    ]
    here = "scaled"
    for index, (width_in, given) in enumerate(pairwise(_CHANNELS)):
        kernel = (random.standard_normal((given, width_in, 3, 3)) * np.sqrt(2 / (9 * width_in))).astype(np.float32)
        bias = (random.standard_normal(given) * 0.1).astype(np.float32)
        weights += [numpy_helper.from_array(kernel, f"k{index}"), numpy_helper.from_array(bias, f"b{index}")]
        window: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        nodes.append(helper.make_node("Conv", [here, f"k{index}", f"b{index}"], [f"conv{index}"], **window))
        here = f"relu{index}"
        nodes.append(helper.make_node("Relu", [f"conv{index}"], [here]))
    head = (random.standard_normal((_CHANNELS[-1], _CLASSES)) / np.sqrt(_CHANNELS[-1])).astype(np.float32)
    weights.append(numpy_helper.from_array(head, "head"))
    nodes += [
        helper.make_node("GlobalAveragePool", [here], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "head"], ["scores"]),
    ]
    shape = ["rows", 3, _SIDE, _SIDE]
    return checked_model("vision", nodes, weights, ("UINT8", shape), ["rows", _CLASSES])
