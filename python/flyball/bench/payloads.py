"""Seeded requests for a model, with the answers that ONNX Runtime gives, as the JSONL that the load generator reads.

Floats are written with the fewest digits that give the same float back, as servers write them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import ModelRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Array = np.ndarray[Any, np.dtype[Any]]

_DATATYPES: dict[str, tuple[str, type]] = {
    "tensor(bool)": ("BOOL", np.bool_),
    "tensor(uint8)": ("UINT8", np.uint8),
    "tensor(uint16)": ("UINT16", np.uint16),
    "tensor(uint32)": ("UINT32", np.uint32),
    "tensor(uint64)": ("UINT64", np.uint64),
    "tensor(int8)": ("INT8", np.int8),
    "tensor(int16)": ("INT16", np.int16),
    "tensor(int32)": ("INT32", np.int32),
    "tensor(int64)": ("INT64", np.int64),
    "tensor(float)": ("FP32", np.float32),
    "tensor(double)": ("FP64", np.float64),
    "tensor(string)": ("BYTES", np.object_),
}


def one_thread_session(path: Path) -> Any:
    """An ONNX Runtime session as this project runs them: one thread, no spinning."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # some converted models warn at every run
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def make_payloads(
    path: Path, count: int, seed: int, *, rows: Callable[[int], Array] | None = None, check: bool = True
) -> bytes:
    """JSONL of `count` requests of one row each. `rows(count)` gives the rows of a model with a single input."""
    session = one_thread_session(path)
    random = np.random.default_rng(seed)
    specs = session.get_inputs()
    if rows is not None and len(specs) != 1:
        raise ModelRefusedError(f"{path} has {len(specs)} inputs; rows can be given for one only")
    given = rows(count) if rows is not None else None
    lines = []
    for place in range(count):
        if given is not None:
            inputs = {specs[0].name: given[place : place + 1]}
        else:
            inputs = {spec.name: _made_up(spec, random) for spec in specs}
        document: dict[str, Any] = {"inputs": [tensor_document(name, array) for name, array in inputs.items()]}
        document["outputs"] = _expected(session, inputs) if check else None
        lines.append(json.dumps(document, separators=(",", ":")))
    return ("\n".join(lines) + "\n").encode()


def tensor_document(name: str, array: Array) -> dict[str, Any]:
    """A V2 JSON tensor with flat data."""
    datatype = next(name for name, dtype in _DATATYPES.values() if np.dtype(dtype) == array.dtype)
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "data": _plain(array.ravel())}


def _expected(session: Any, inputs: dict[str, Array]) -> list[dict[str, Any]]:
    names = [output.name for output in session.get_outputs()]
    return [tensor_document(name, array) for name, array in zip(names, session.run(None, inputs), strict=True)]


def _plain(flat: Array) -> list[Any]:
    if flat.dtype == np.float32:
        return [float(str(item)) for item in flat]
    return list(flat.tolist())


def _made_up(spec: Any, random: np.random.Generator) -> Array:
    if spec.type not in _DATATYPES:
        raise ModelRefusedError(f"input {spec.name!r} has type {spec.type}, which JSON payloads cannot carry")
    _, dtype = _DATATYPES[spec.type]
    shape = [size if isinstance(size, int) and size > 0 else 1 for size in spec.shape]
    if dtype is np.object_:
        return random.choice(np.array(["a", "b", "c", "d"], dtype=object), shape)
    if np.issubdtype(dtype, np.floating):
        return random.standard_normal(shape).astype(dtype)
    # Zero and one are what every vocabulary and category has.
    return random.integers(0, 2, shape).astype(dtype)
