"""Models for tail latency: a CNN with adjustable cost per row, and a fast 100 MB lookup table. Must not know servers.

Both take one short row, so that time is spent in the run and not in parsing the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.bench.models.extras import checked_model
from flyball.errors import needing

if TYPE_CHECKING:
    from pathlib import Path

_SIDE, _CHANNELS = 8, 128
_TABLE_ROWS, _TABLE_WIDTH, _IDS = 390_625, 64, 8
_HIDDEN = 64
_DOC_STRING = 0x32  # the key of ModelProto.doc_string, field 6 of text


def make_row_cnn(path: Path, layers: int, seed: int = 7) -> Path:
    """Convolutions over 8 × 8 cells of a row of 64 numbers, 9.4 million multiplications per layer.

    A layer's weights serve 64 cells of one row, so that a batch costs nearly as much as its rows one by one.
    """
    helper, numpy_helper = _onnx()
    random = np.random.default_rng(seed)
    weights = [numpy_helper.from_array(np.array([-1, 1, _SIDE, _SIDE], np.int64), "shape")]
    nodes = [helper.make_node("Reshape", ["input", "shape"], ["cells"])]
    here, width_in = "cells", 1
    for index in range(layers):
        kernel = (random.standard_normal((_CHANNELS, width_in, 3, 3)) * np.sqrt(2 / (9 * width_in))).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"k{index}"))
        window: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        nodes.append(helper.make_node("Conv", [here, f"k{index}"], [f"conv{index}"], **window))
        here, width_in = f"relu{index}", _CHANNELS
        nodes.append(helper.make_node("Relu", [f"conv{index}"], [here]))
    weights.append(numpy_helper.from_array(_dense(random, _CHANNELS, 1), "head"))
    nodes += [
        helper.make_node("GlobalAveragePool", [here], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "head"], ["output"]),
    ]
    return _save(path, "cells", nodes, weights, ("FLOAT", _SIDE * _SIDE))


def make_table_100mb(path: Path, seed: int = 7) -> Path:
    """Looks up and joins eight ids in a 100 MB table, like a ranking model: many bytes to load, a fast run."""
    helper, numpy_helper = _onnx()
    random = np.random.default_rng(seed)
    table = random.standard_normal((_TABLE_ROWS, _TABLE_WIDTH), np.float32)
    weights = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.array([-1, _IDS * _TABLE_WIDTH], np.int64), "shape"),
        numpy_helper.from_array(_dense(random, _IDS * _TABLE_WIDTH, _HIDDEN), "hidden"),
        numpy_helper.from_array(_dense(random, _HIDDEN, 1), "head"),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input"], ["found"]),
        helper.make_node("Reshape", ["found", "shape"], ["joined"]),
        helper.make_node("Gemm", ["joined", "hidden"], ["dense"]),
        helper.make_node("Relu", ["dense"], ["relu"]),
        helper.make_node("Gemm", ["relu", "head"], ["output"]),
    ]
    return _save(path, "table", nodes, weights, ("INT64", _IDS))


def table_rows(count: int, seed: int) -> np.ndarray[Any, Any]:
    """Ids for the table, eight per row."""
    return np.random.default_rng(seed).integers(0, _TABLE_ROWS, (count, _IDS), np.int64)


def retitle(path: Path, out: Path, title: str) -> Path:
    """The same model under another digest: protobuf uses the last of repeated fields, so appending one suffices."""
    text = title.encode()
    if len(text) > 127:
        raise ValueError("a title has at most 127 bytes: its length is written as one byte")
    out.write_bytes(path.read_bytes() + bytes([_DOC_STRING, len(text)]) + text)
    return out


def _onnx() -> tuple[Any, Any]:
    with needing("the demo needs more packages", extra="demo"):
        from onnx import helper, numpy_helper
    return helper, numpy_helper


def _dense(random: np.random.Generator, wide: int, narrow: int) -> np.ndarray[Any, Any]:
    return np.asarray(random.standard_normal((wide, narrow)) / np.sqrt(wide), np.float32)


def _save(path: Path, name: str, nodes: list[Any], weights: list[Any], row: tuple[str, int]) -> Path:
    import onnx

    kind, width = row
    onnx.save(checked_model(name, nodes, weights, (kind, ["rows", width]), ["rows", 1]), path)
    return path
