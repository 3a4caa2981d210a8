"""ONNX models for fixtures of other backends: the same name, tensors and configuration, and the same answers.

Must not know suites or servers.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from flyball.native.model_runs import Model
from flyball.triton.config import read_config

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_OPSET = [helper.make_opsetid("", 17)]
_TYPES = {
    "TYPE_BOOL": TensorProto.BOOL,
    "TYPE_INT32": TensorProto.INT32,
    "TYPE_INT64": TensorProto.INT64,
    "TYPE_FP32": TensorProto.FLOAT,
    "TYPE_STRING": TensorProto.STRING,
}
_WIDE = 256
"""Side of the matrices that a slow model multiplies."""
_MEASURED_PRODUCTS, _MEASURED_RUNS = 500, 7


def identity(inputs: Sequence[str], outputs: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """Each output is its input."""
    return [helper.make_node("Identity", [one], [other]) for one, other in zip(inputs, outputs, strict=True)], []


def add_sub(inputs: Sequence[str], outputs: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """The sum and the difference of two inputs."""
    return [helper.make_node(op, list(inputs), [name]) for op, name in zip(("Add", "Sub"), outputs, strict=True)], []


def constant(*values: float) -> Callable[[Sequence[str], Sequence[str]], tuple[list[Any], list[Any]]]:
    """The output is always the same."""

    def nodes(_: Sequence[str], outputs: Sequence[str]) -> tuple[list[Any], list[Any]]:
        kept = [numpy_helper.from_array(np.asarray(values, np.float32), "values")]
        return [helper.make_node("Identity", ["values"], [outputs[0]])], kept

    return nodes


def stand_in(
    folder: Path,
    nodes: Callable[[Sequence[str], Sequence[str]], tuple[list[Any], list[Any]]],
    *,
    seconds: float = 0,
) -> None:
    """Replace the fixture in `folder` by an ONNX model; each run takes about `seconds` of CPU time."""
    path = folder / "config.pbtxt"
    text = re.sub(r"(?m)^\s*(platform|backend):.*$", "", path.read_text())
    config = read_config(text).message
    batched = config.max_batch_size > 0
    tensors = {tensor.name: _value(tensor, batched=batched) for tensor in [*config.input, *config.output]}
    inputs, outputs = [item.name for item in config.input], [item.name for item in config.output]
    made, kept = nodes(inputs, outputs)
    if seconds:
        kind = tensors[outputs[-1]].type.tensor_type.elem_type
        slow, constants = _slow(inputs[0], made[-1], max(1, round(seconds / product_s())), kind)
        made, kept = [*made[:-1], *slow], [*kept, *constants]
    kept += [_default(tensor) for tensor in config.input if tensor.optional]
    graph = helper.make_graph(
        made, folder.name, [tensors[name] for name in inputs], [tensors[name] for name in outputs], kept
    )
    path.write_text(f'backend: "onnxruntime"\n{text}')
    version = folder / "1"
    version.mkdir(exist_ok=True)
    for file in version.iterdir():
        file.unlink()
    _save(graph, version / "model.onnx")


@cache
def product_s() -> float:
    """Measure the seconds of one product in a slow model on this machine, once per process.

    CPU time: other processes make a run longer than asked for, never shorter.
    """
    made, kept = identity(["numbers_in"], ["numbers_out"])
    made, kept = _slow("numbers_in", made[-1], _MEASURED_PRODUCTS, TensorProto.INT32)
    tensors = [helper.make_tensor_value_info(name, TensorProto.INT32, [1]) for name in ("numbers_in", "numbers_out")]
    with tempfile.TemporaryDirectory(prefix="fb-") as folder:
        path = Path(folder) / "model.onnx"
        _save(helper.make_graph(made, "measured", tensors[:1], tensors[1:], kept), path)
        model, inputs = Model(path), {"numbers_in": np.ones(1, np.int32)}
        runs_us = [model.measure(inputs, runs=1, warm_runs=1).cpu_us for _ in range(_MEASURED_RUNS)]
    return statistics.median(runs_us) / 1e6 / _MEASURED_PRODUCTS


def _save(graph: Any, path: Path) -> None:
    model = helper.make_model(graph, opset_imports=_OPSET, ir_version=8, producer_name="flyball-conformance")
    path.write_bytes(model.SerializeToString())


def _value(tensor: Any, *, batched: bool) -> Any:
    axes = [f"{tensor.name}_{axis}" if size == -1 else size for axis, size in enumerate(tensor.dims)]
    kind = _TYPES[type(tensor).DESCRIPTOR.fields_by_name["data_type"].enum_type.values_by_number[tensor.data_type].name]
    return helper.make_tensor_value_info(tensor.name, kind, ["rows", *axes] if batched else axes)


def _default(tensor: Any) -> Any:
    """What an optional input is where a request leaves it out."""
    return numpy_helper.from_array(np.zeros([1 if size == -1 else size for size in tensor.dims], np.float32), tensor.name)


def _slow(of: str, last: Any, products: int, kind: int) -> tuple[list[Any], list[Any]]:
    """The last node behind products of matrices that depend on an input, so that nothing is computed ahead."""
    constants = [
        numpy_helper.from_array(np.eye(_WIDE, dtype=np.float32), "wide"),
        numpy_helper.from_array(np.asarray(products, np.int64), "products"),
        numpy_helper.from_array(np.asarray(1, np.bool_), "go_on"),
        numpy_helper.from_array(np.zeros(1, np.float32), "none"),
    ]
    matrix = helper.make_tensor_value_info("matrix", TensorProto.FLOAT, [_WIDE, _WIDE])
    product = helper.make_tensor_value_info("product", TensorProto.FLOAT, [_WIDE, _WIDE])
    body = helper.make_graph(
        [helper.make_node("MatMul", ["matrix", "wide"], ["product"]), helper.make_node("Identity", ["on"], ["on_out"])],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            matrix,
        ],
        [helper.make_tensor_value_info("on_out", TensorProto.BOOL, []), product],
    )
    result = last.output[0]
    last.output[0] = "early"
    nodes = [
        last,
        helper.make_node("Cast", [of], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["numbers"], ["total"], keepdims=0),
        helper.make_node("Add", ["wide", "total"], ["first"]),
        helper.make_node("Loop", ["products", "go_on", "first"], ["multiplied"], body=body),
        helper.make_node("ReduceMean", ["multiplied"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "none"], ["zero"]),
        helper.make_node("Cast", ["zero"], ["nothing"], to=kind),
        helper.make_node("Add", ["early", "nothing"], [result]),
    ]
    return nodes, constants
