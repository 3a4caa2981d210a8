"""Maps a configuration's fields: the backend, and every field without a counterpart.

`batching.py`, `tensors.py` and `versions.py` map the others. Each field that a file sets gets a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.errors import ModelRefusedError

if TYPE_CHECKING:
    from flyball.triton.config import Config
    from flyball.triton.report import Notes

BACKEND = "onnxruntime"
PLATFORM = "onnxruntime_onnx"
DEFAULT_FILE = "model.onnx"

# Files by which Triton detects a model's backend without a configuration.
_FILES_OF_OTHERS = {
    "model.plan": "TensorRT",
    "model.pt": "PyTorch",
    "model.pt2": "PyTorch",
    "model.savedmodel": "TensorFlow",
    "model.graphdef": "TensorFlow",
    "model.xml": "OpenVINO",
    "model.py": "Python",
    "model.dali": "DALI",
}
# Without these a model would answer differently than under Triton.
_REFUSED = {
    "ensemble_scheduling": "ensembles are not supported: serve the steps separately",
    "sequence_batching": "no state is kept between requests",
    "batch_input": "inputs computed from a batch are not supported",
    "batch_output": "outputs sliced from a batch are not supported",
}
# Fields mapped by other modules, or checked by `identity`.
_ELSEWHERE = {
    "name", "platform", "backend", "default_model_filename", "version_policy", "max_batch_size", "dynamic_batching",
    "input", "output",
}  # fmt: skip
_UNMAPPED = {
    "runtime": "flyball has its own",
    "instance_group": "the number of lanes sets the concurrency, one per core",
    "optimization": "ONNX Runtime's own optimizations are on; there are no other options",
    "parameters": "options of Triton's backend; lanes replace threads",
    "model_warmup": "every model is probed and warmed up when it is loaded",
    "model_operations": "custom operators are not supported: a model that uses them is refused",
    "model_transaction_policy": "each request has one answer",
    "model_repository_agents": "agents are not run; every file is verified against its digest",
    "response_cache": "answers are not cached",
    "metric_tags": "metrics have no model-specific labels",
    "model_metrics": "all models' metrics have the same buckets",
    "cc_model_filenames": "one file for all machines: default_model_filename",
}


def identity(config: Config, name: str, notes: Notes) -> None:
    """Refuse other backends and features that change answers; report a name that differs from the folder's."""
    message = config.message
    for field, _ in message.ListFields():
        if field.name in _REFUSED:
            raise ModelRefusedError(f"{field.name}: {_REFUSED[field.name]}")
    if message.backend not in ("", BACKEND):
        raise ModelRefusedError(f'backend "{message.backend}": only {BACKEND} is supported; export the model to ONNX')
    if message.platform not in ("", PLATFORM):
        raise ModelRefusedError(f'platform "{message.platform}": only {PLATFORM} is supported; export the model to ONNX')
    for field in ("platform", "backend"):
        if getattr(message, field):
            notes.mapped(field, "ONNX Runtime")
    if message.name and message.name != name:
        notes.unmapped("name", f'"{message.name}" differs from the folder\'s name; it is served as "{name}"')
    elif message.name:
        notes.mapped("name", name)
    if message.default_model_filename:
        notes.mapped("default_model_filename", message.default_model_filename)


def other_backend(names: set[str]) -> str | None:
    """The owner of a foreign model file in a version's folder, or None."""
    return next((f"{file} is a model of {owner}" for file, owner in _FILES_OF_OTHERS.items() if file in names), None)


def note_unmapped(config: Config, notes: Notes) -> None:
    """Add a note for every field without one, and for unknown fields."""
    for field, value in config.message.ListFields():
        if field.name in _ELSEWHERE:
            continue
        notes.unmapped(_path(field.name, value), _UNMAPPED.get(field.name, "no counterpart"))
    for path in config.unknown:
        notes.unmapped(path, "unknown field, ignored")


def _path(name: str, value: Any) -> str:
    """The field with its keys: instance_group(count, kind), parameters(threads)."""
    if hasattr(value, "ListFields"):
        inner = [field.name for field, _ in value.ListFields()]
    elif hasattr(value, "keys"):
        inner = sorted(value)
    elif isinstance(value, str):
        inner = []
    else:
        inner = sorted({field.name for item in value for field, _ in item.ListFields()})
    return f"{name}({', '.join(inner)})" if inner else name
