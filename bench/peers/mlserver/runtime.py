"""A custom MLServer runtime around one ONNX Runtime session."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput
from onnx_model import DATATYPES, DTYPES, OnnxModel


class OnnxRuntime(MLModel):  # type: ignore[misc]  # MLServer is in the peer's environment only
    """Loaded once for each worker; MLServer's own adaptive batcher sits in front of `predict`."""

    async def load(self) -> bool:
        """Make the session."""
        self.model = OnnxModel(self.settings.parameters.uri)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answer one request, which may be many that the batcher has joined."""
        arrays = self.model.run({tensor.name: _array(tensor) for tensor in payload.inputs})
        # Written out, because NumpyCodec gives a vector a second dimension.
        outputs = [
            ResponseOutput(name=name, shape=array.shape, datatype=DATATYPES[array.dtype], data=array.ravel().tolist())
            for name, array in zip(self.model.output_names, arrays, strict=True)
        ]
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=outputs)


def _array(tensor: Any) -> Any:
    return np.array(tensor.data.root, dtype=DTYPES[tensor.datatype]).reshape(tensor.shape)
