"""The process that rewrites a model: reads one request from stdin, writes the target; its last line is the error.

The only module that imports the `onnxruntime` package. It enters a sandbox first, where the kernel supports it: a graph
runs no code, but its readers have bugs. Run as  python -m flyball.models.optimize.rewrite_process
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from flyball.errors import UsageError
from flyball.native.sandbox import seal

_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_CALIBRATION_ROWS = 32  # per run: more would need memory for every activation of the graph


def main() -> int:
    """Serve one request."""
    job = json.load(sys.stdin)
    how, source, target = job["how"], Path(job["source"]), Path(job["target"])
    # External data is beside the model, calibration data beside the target. The tools write temporary files there.
    tempfile.tempdir = str(target.parent)
    with contextlib.suppress(UsageError):
        seal(target.parent, source.parent)
    try:
        match how["do"]:
            case "trim":
                _trim(how, source, target)
            case "graph":
                _graph(how, source, target)
            case "static_int8":
                _static(how, source, target, Path(job["calibration"]))
            case "dynamic_int8":
                _dynamic(source, target)
            case other:
                raise ValueError(f"unknown request {other}")
    except ImportError as error:
        return _tell({"missing": error.name or str(error)})
    except Exception as error:  # report whatever the tools raise
        return _tell({"error": f"{type(error).__name__}: {error}"})
    return 0


def _tell(what: dict[str, str]) -> int:
    sys.stdout.write("\n" + json.dumps(what) + "\n")
    return 1


def _trim(how: dict[str, Any], source: Path, target: Path) -> None:
    import onnx

    from flyball.documents.onnx_graph import tidied

    model = onnx.load(source)
    if how["columns"] is not None:
        _narrow(model.graph, how["columns"])
    content = tidied(model, how["name"], how["outputs"])
    onnx.checker.check_model(model)
    target.write_bytes(content)


def _narrow(graph: Any, columns: list[int]) -> None:
    """Restrict the trees' input to these columns; leaves name a column too, which is unused."""
    indices = {column: index for index, column in enumerate(columns)}
    (table,) = graph.input
    axis = table.type.tensor_type.shape.dim[1]
    axis.Clear()
    axis.dim_value = len(columns)
    for node in graph.node:
        modes = next((one.strings for one in node.attribute if one.name == "nodes_modes"), None)
        for attribute in node.attribute:
            if modes is not None and attribute.name == "nodes_featureids":
                pairs = zip(attribute.ints, modes, strict=True)
                attribute.ints[:] = [0 if mode == b"LEAF" else indices[column] for column, mode in list(pairs)]


def _graph(how: dict[str, Any], source: Path, target: Path) -> None:
    import onnx
    import onnxruntime

    from flyball.documents.onnx_graph import set_rows

    if how["rows"] is not None:
        model = onnx.load(source)
        set_rows(model, how["rows"])
        source = target.with_name("fixed.onnx")
        onnx.save(model, source)
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = getattr(levels, f"ORT_ENABLE_{how['level'].upper()}")
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


class _Rows:
    """Calibration rows in chunks, as the quantiser requests them."""

    def __init__(self, path: Path, *, one_by_one: bool) -> None:
        import numpy as np

        with np.load(path, allow_pickle=False) as arrays:
            self._arrays = {name: arrays[name] for name in arrays.files}
        self._rows = len(next(iter(self._arrays.values())))
        self._at_once = 1 if one_by_one else _CALIBRATION_ROWS
        self._place = 0

    def get_next(self) -> dict[str, Any] | None:
        if self._place >= self._rows:
            return None
        index, self._place = self._place, self._place + self._at_once
        return {name: array[index : self._place] for name, array in self._arrays.items()}


def _static(how: dict[str, Any], source: Path, target: Path, calibration: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

    CalibrationDataReader.register(_Rows)
    prepared, scoring = _prepared(source, target)
    quantize_static(
        str(prepared),
        str(target),
        _Rows(calibration, one_by_one=how["method"] != "minmax"),
        nodes_to_exclude=scoring,
        quant_format=QuantFormat.QDQ,
        per_channel=how["per_channel"],
        reduce_range=how["reduce_range"],
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod.MinMax if how["method"] == "minmax" else CalibrationMethod.Percentile,
    )


def _dynamic(source: Path, target: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    prepared, scoring = _prepared(source, target)
    scoring += [f"{name}_MatMul" for name in scoring]  # the tool's name for a rewritten Gemm
    quantize_dynamic(str(prepared), str(target), weight_type=QuantType.QInt8, nodes_to_exclude=scoring)


def _prepared(source: Path, target: Path) -> tuple[Path, list[str]]:
    """The model with inferred shapes, folded constants, and biases in a readable form.

    The names are the nodes that produce the scores, which are not quantised.
    """
    import onnx
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = target.with_name("prepared.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    model = onnx.load(prepared)
    _flatten_biases(model.graph)
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"node{index}"
    onnx.save(model, prepared)
    return prepared, _scoring(model.graph)


def _scoring(graph: Any) -> list[str]:
    """Nodes from the outputs back to the last product, which is included unless it is the only one.

    A probability in 256 steps is 0 for rare events, and a logit in 256 steps is no better; the last product is small anyway.
    """
    makers = {name: node for node in graph.node for name in node.output}
    waiting, found = [output.name for output in graph.output], dict[str, Any]()
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and node.name not in found:
            found[node.name] = node
            waiting += [] if node.op_type in _PRODUCTS else node.input
    products = {node.name for node in graph.node if node.op_type in _PRODUCTS}
    return [name for name in found if name not in products or products - found.keys()]


def _flatten_biases(graph: Any) -> None:
    """A bias of shape (1, n) means the same as (n), but makes the per-channel quantiser fail."""
    biases = {node.input[2] for node in graph.node if node.op_type == "Gemm" and len(node.input) > 2}
    others = {name for node in graph.node for index, name in enumerate(node.input) if node.op_type != "Gemm" or index != 2}
    for weight in graph.initializer:
        if weight.name in biases - others and len(weight.dims) == 2 and weight.dims[0] == 1:
            del weight.dims[0]


if __name__ == "__main__":
    sys.exit(main())
