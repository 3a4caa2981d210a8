"""The model as Triton's Python backend runs it: in the backend's stub process, for all requests of a batch at once.

serve.py lays it into the model repository with onnx_model.py beside it: the stub ignores PYTHONPATH.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import triton_python_backend_utils as backend
from onnx_model import OnnxModel


class TritonPythonModel:
    """One session in each instance."""

    def initialize(self, args: dict[str, str]) -> None:
        """Make the session."""
        config = json.loads(args["model_config"])
        self.model = OnnxModel(config["parameters"]["model"]["string_value"])
        self.batches = config["max_batch_size"] > 0

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer what the dynamic batcher has brought together."""
        feeds = [
            {tensor.name: backend.get_input_tensor_by_name(request, tensor.name).as_numpy() for tensor in self.model.inputs}
            for request in requests
        ]
        return [self._response(arrays) for arrays in self.model.run_many(feeds)]

    def _response(self, arrays: list[Any]) -> Any:
        if self.batches:  # Triton knows no batched output of one dimension
            arrays = [array[:, np.newaxis] if array.ndim == 1 else array for array in arrays]
        pairs = zip(self.model.output_names, arrays, strict=True)
        return backend.InferenceResponse([backend.Tensor(name, array) for name, array in pairs])
