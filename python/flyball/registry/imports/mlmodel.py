"""Reads MLflow's `MLmodel` file: the flavours of a model, and its signature.

Only the ONNX flavour is supported. All others run Python when loaded, so they are refused with advice on conversion.
Providers and session options, which could load a library, are ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from flyball.artifacts.packages import checked_name
from flyball.errors import ArtifactRefusedError, ModelRefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.native.model_documents import DeclaredTensor

MLMODEL_BYTES_MAX = 1 << 20
_COLUMNS_MAX = 1000
_LOG = "log it with  mlflow.onnx.log_model"
_ADVICE = {
    "sklearn": f"convert it with skl2onnx.to_onnx, then {_LOG}",
    "lightgbm": f"convert it with onnxmltools.convert_lightgbm, then {_LOG}",
    "xgboost": f"convert it with onnxmltools.convert_xgboost, then {_LOG}",
    "catboost": f"save it with save_model(format='onnx'), then {_LOG}",
    "pytorch": f"convert it with torch.onnx.export, then {_LOG}",
    "tensorflow": f"convert it with tf2onnx, then {_LOG}",
    "keras": f"convert it with tf2onnx, then {_LOG}",
    "transformers": f"export it with optimum-cli export onnx, then {_LOG}",
}
_DATATYPES = {
    "float16": "FP16", "float32": "FP32", "float64": "FP64", "int8": "INT8", "int16": "INT16", "int32": "INT32",
    "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "bool": "BOOL",
    "str": "BYTES", "object": "BYTES",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MlModel:
    """The parts of the file that are used."""

    data: str
    """The ONNX file, relative to the MLmodel."""
    uuid: str | None
    run_id: str | None
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]

    @property
    def columns(self) -> list[str]:
        """The names of the input columns, if the signature is over columns."""
        return [str(one["name"]) for one in self.inputs if "tensor-spec" not in one and "name" in one]


def read_mlmodel(content: bytes) -> MlModel:
    """Parse the file; raises if it is invalid or the model is not ONNX."""
    try:
        document = yaml.safe_load(content)
        flavors = dict(document["flavors"])
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelRefusedError("its MLmodel file cannot be read: there are no flavours in it") from error
    onnx = flavors.get("onnx")
    if not isinstance(onnx, dict):
        raise _not_onnx(flavors)
    signature = document.get("signature")
    signature = signature if isinstance(signature, dict) else {}
    return MlModel(
        data=_data(onnx.get("data", "model.onnx")),
        uuid=_text(document.get("model_uuid")),
        run_id=_text(document.get("run_id")),
        inputs=_tensors(signature.get("inputs")),
        outputs=_tensors(signature.get("outputs")),
    )


def differences(model: MlModel, inputs: Sequence[DeclaredTensor], outputs: Sequence[DeclaredTensor]) -> list[str]:
    """Differences between MLflow's signature and the model, which is what serves."""
    found = []
    for what, said, declared in (("input", model.inputs, inputs), ("output", model.outputs, outputs)):
        tensors = {one.name: one for one in declared}
        for one in said:
            spec, name = one.get("tensor-spec"), one.get("name")
            if not isinstance(spec, dict):
                continue  # a column: several of them are one tensor, and the model does not name them
            tensor = tensors.get(str(name)) if name is not None else (declared[0] if len(declared) == 1 else None)
            if tensor is None:
                found.append(f"the signature has the {what} {name}, and the model has {', '.join(tensors) or 'none'}")
                continue
            datatype = _DATATYPES.get(str(spec.get("dtype")))
            if datatype and tensor.datatype and datatype != tensor.datatype:
                found.append(f"the {what} {tensor.name} is {datatype} in the signature and {tensor.datatype} in the model")
            if tensor.shape is not None and not _same_shape(spec.get("shape"), tensor.shape):
                found.append(
                    f"the {what} {tensor.name} is {spec.get('shape')} in the signature and {tensor.shape} in the model"
                )
    return [line[:300] for line in found[:20]]


def _same_shape(said: Any, declared: Sequence[int]) -> bool:
    """Whether shapes are equal; a free dimension matches any."""
    if not isinstance(said, list):
        return True
    sizes = zip(said, declared, strict=False)
    return len(said) == len(declared) and all(-1 in pair or pair[0] == pair[1] for pair in sizes)


def _not_onnx(flavors: dict[str, Any]) -> ModelRefusedError:
    names = ", ".join(sorted(str(name) for name in flavors)[:8]) or "none"
    advice = next((words for name, words in _ADVICE.items() if name in flavors), f"convert it to ONNX, then {_LOG}")
    return ModelRefusedError(
        f"it has no ONNX flavour (it has {names}), and loading any other would run its Python code",
        next_step=advice,
    )


def _data(named: Any) -> str:
    try:
        return checked_name(named)
    except ArtifactRefusedError as error:
        raise ModelRefusedError(
            f"its MLmodel names the model file {str(named)[:100]!r}, which is not a plain path"
        ) from error


def _tensors(text: Any) -> tuple[dict[str, Any], ...]:
    try:
        found = json.loads(text) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return ()
    return tuple(one for one in found if isinstance(one, dict))[:_COLUMNS_MAX] if isinstance(found, list) else ()


def _text(value: Any) -> str | None:
    return value[:100] if isinstance(value, str) and value else None
