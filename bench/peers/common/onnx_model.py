"""An ONNX model behind V2 JSON, one request or many at a time: shared by the Python peers.

Runs inside a peer's own environment, so it may use NumPy and ONNX Runtime only; it must not know any server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}
DATATYPES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


class OnnxModel:
    """One session with one thread: a peer runs as many processes as it has cores."""

    def __init__(self, path: str) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # some converted models warn at every run
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = self.session.get_inputs()
        self.outputs = self.session.get_outputs()
        self.output_names = [output.name for output in self.outputs]
        shapes = [tensor.shape for tensor in (*self.inputs, *self.outputs)]
        self.takes_batches = all(shape and not isinstance(shape[0], int) for shape in shapes)

    def infer(self, document: dict[str, Any]) -> dict[str, Any]:
        """V2 JSON in, V2 JSON out."""
        return self._answer(document, self.run(dict(map(_array, document["inputs"]))))

    def infer_many(self, documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers to many requests from one run of the model."""
        feeds = [dict(map(_array, document["inputs"])) for document in documents]
        return [self._answer(*pair) for pair in zip(documents, self.run_many(feeds), strict=True)]

    def run(self, feed: dict[str, Array]) -> list[Array]:
        """One run; the outputs are in the model's order."""
        arrays: list[Array] = self.session.run(self.output_names, feed)
        return arrays

    def run_many(self, feeds: Sequence[dict[str, Array]]) -> list[Sequence[Array]]:
        """One run for many, if the model can: their rows are joined, and the outputs split again."""
        if len(feeds) == 1 or not self.takes_batches:
            return [self.run(feed) for feed in feeds]
        names = [tensor.name for tensor in self.inputs]
        joined = self.run({name: np.concatenate([feed[name] for feed in feeds]) for name in names})
        ends = np.cumsum([len(feed[names[0]]) for feed in feeds])[:-1]
        return list(zip(*(np.split(array, ends) for array in joined), strict=True))

    def _answer(self, document: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        outputs = [
            {"name": name, "datatype": DATATYPES[array.dtype], "shape": list(array.shape), "data": array.ravel().tolist()}
            for name, array in zip(self.output_names, arrays, strict=True)
        ]
        return {"model_name": "model", "id": document.get("id", ""), "outputs": outputs}


def _array(tensor: dict[str, Any]) -> tuple[str, Array]:
    return tensor["name"], np.array(tensor["data"], dtype=DTYPES[tensor["datatype"]]).reshape(tensor["shape"])
