"""The models of a run as ONNX files: an identity of every element type, and equivalents of Triton's example models.

A maker takes a folder and returns the files by model name. Must not know how they are served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ELEMENTS = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "BF16": TensorProto.BFLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}
LABELS = {"classifier": {"SCORES": [f"kind-{number}" for number in range(8)]}}
_OPSET = [helper.make_opsetid("", 17)]
_WIDTH = 16


def make_models(folder: Path) -> dict[str, Path]:
    """Every model of the run, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {f"identity_{name.lower()}": _identity(folder, name, kind) for name, kind in ELEMENTS.items()}
    made["simple"] = _add_sub(folder, "simple", TensorProto.INT32)
    made["simple_int8"] = _add_sub(folder, "simple_int8", TensorProto.INT8)
    made["simple_string"] = _add_sub(folder, "simple_string", TensorProto.STRING)
    made["spare"] = _add_sub(folder, "spare", TensorProto.INT32)
    made["simple_identity"] = _identity(folder, "simple_identity", TensorProto.STRING)
    made["classifier"] = _classifier(folder)
    made["slow"] = _slow(folder)
    return made


def _identity(folder: Path, name: str, kind: int) -> Path:
    path = folder / f"identity_{name.lower()}.onnx"
    nodes = [helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])]
    return _save(path, nodes, {"INPUT0": (kind, "width")}, {"OUTPUT0": (kind, "width")})


def _add_sub(folder: Path, name: str, kind: int) -> Path:
    """Sum and difference of sixteen elements; ONNX Runtime adds INT32, so other types are cast."""
    nodes = [
        helper.make_node("Cast", ["INPUT0"], ["a"], to=TensorProto.INT32),
        helper.make_node("Cast", ["INPUT1"], ["b"], to=TensorProto.INT32),
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Sub", ["a", "b"], ["difference"]),
        helper.make_node("Cast", ["sum"], ["OUTPUT0"], to=kind),
        helper.make_node("Cast", ["difference"], ["OUTPUT1"], to=kind),
    ]
    inputs = dict.fromkeys(("INPUT0", "INPUT1"), (kind, _WIDTH))
    return _save(folder / f"{name}.onnx", nodes, inputs, dict.fromkeys(("OUTPUT0", "OUTPUT1"), (kind, _WIDTH)))


def _classifier(folder: Path) -> Path:
    """Scores of eight classes, equal to the input, so that a case knows their order."""
    nodes = [helper.make_node("Mul", ["FEATURES", "one"], ["SCORES"])]
    floats = (TensorProto.FLOAT, 8)
    return _save(folder / "classifier.onnx", nodes, {"FEATURES": floats}, {"SCORES": floats}, {"one": np.float32(1)})


def _slow(folder: Path) -> Path:
    """Returns its input after some hundred milliseconds of products that depend on it, so that nothing is folded."""
    wide, products = 512, 40
    constants = {"w": np.eye(wide, dtype=np.float32), "none": np.zeros(1, np.float32)}
    nodes = [
        helper.make_node("ReduceSum", ["INPUT0"], ["total"], keepdims=0),
        helper.make_node("Add", ["w", "total"], ["m0"]),
    ]
    nodes += [helper.make_node("MatMul", [f"m{step}", "w"], [f"m{step + 1}"]) for step in range(products)]
    nodes.append(helper.make_node("ReduceMean", [f"m{products}"], ["mean"], keepdims=0))
    nodes.append(helper.make_node("Mul", ["mean", "none"], ["nothing"]))
    nodes.append(helper.make_node("Add", ["INPUT0", "nothing"], ["OUTPUT0"]))
    floats = (TensorProto.FLOAT, 1)
    return _save(folder / "slow.onnx", nodes, {"INPUT0": floats}, {"OUTPUT0": floats}, constants)


def _save(
    path: Path,
    nodes: list[Any],
    inputs: Mapping[str, tuple[int, int | str]],
    outputs: Mapping[str, tuple[int, int | str]],
    constants: Mapping[str, Any] | None = None,
) -> Path:
    def values(named: Mapping[str, tuple[int, int | str]]) -> list[Any]:
        return [helper.make_tensor_value_info(name, kind, ["rows", width]) for name, (kind, width) in named.items()]

    kept = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, path.stem, values(inputs), values(outputs), kept)
    model = helper.make_model(graph, opset_imports=_OPSET, ir_version=8, producer_name="flyball-conformance")
    path.write_bytes(model.SerializeToString())
    return path
