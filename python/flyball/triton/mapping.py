"""What each field of a configuration becomes: which backend, and every field that has no counterpart with what is so here.

`batching.py`, `tensors.py` and `versions.py` map what maps. Each field that a file states has a note: none is passed over.
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

# Files by which Triton knows a model's backend where no configuration names it.
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
# Without these a model does not answer what it answers under Triton.
_REFUSED = {
    "ensemble_scheduling": "an ensemble joins models, which is not done here: serve its steps by themselves",
    "sequence_batching": "state is not kept between requests here",
    "batch_input": "inputs that the server makes of a batch are not made here",
    "batch_output": "outputs that the server cuts from a batch are not cut here",
}
# Fields that other modules map, or that `identity` judges.
_ELSEWHERE = {
    "name", "platform", "backend", "default_model_filename", "version_policy", "max_batch_size", "dynamic_batching",
    "input", "output",
}  # fmt: skip
_SAID = {
    "runtime": "flyball brings its own",
    "instance_group": "lanes decide how many run at once, one on each core",
    "optimization": "ONNX Runtime's own optimizations are on; nothing else is tuned",
    "parameters": "options of Triton's backend; threads are lanes here",
    "model_warmup": "every model is probed and warmed when it is loaded",
    "model_operations": "custom operators are not loaded: a model that uses them is refused",
    "model_transaction_policy": "each request has one answer",
    "model_repository_agents": "agents are not run; every file is checked against the digest that it had when it was read",
    "response_cache": "answers are not cached",
    "metric_tags": "metrics have no labels of a model's own",
    "model_metrics": "metrics have the buckets that they have for all models",
    "cc_model_filenames": "one file for all machines: default_model_filename",
}


def identity(config: Config, name: str, notes: Notes) -> None:
    """Refuse what another backend runs, and what cannot be right without the rest of Triton; say a name that differs."""
    message = config.message
    for field, _ in message.ListFields():
        if field.name in _REFUSED:
            raise ModelRefusedError(f"{field.name}: {_REFUSED[field.name]}")
    if message.backend not in ("", BACKEND):
        raise ModelRefusedError(f'backend "{message.backend}": only {BACKEND} is served; export the model to ONNX')
    if message.platform not in ("", PLATFORM):
        raise ModelRefusedError(f'platform "{message.platform}": only {PLATFORM} is served; export the model to ONNX')
    for field in ("platform", "backend"):
        if getattr(message, field):
            notes.mapped(field, "ONNX Runtime")
    if message.name and message.name != name:
        notes.said("name", f'"{message.name}" is not the folder\'s name, under which it is served: "{name}"')
    elif message.name:
        notes.mapped("name", name)
    if message.default_model_filename:
        notes.mapped("default_model_filename", message.default_model_filename)


def other_backend(names: set[str]) -> str | None:
    """Whose file it is, among the names of a version's folder; none where it is nobody's that we know."""
    return next((f"{file} is a model of {owner}" for file, owner in _FILES_OF_OTHERS.items() if file in names), None)


def say_the_rest(config: Config, notes: Notes) -> None:
    """A note for every field that no other module has one for, and for those that nobody knows."""
    for field, value in config.message.ListFields():
        if field.name in _ELSEWHERE:
            continue
        notes.said(_path(field.name, value), _SAID.get(field.name, "it has no counterpart here"))
    for path in config.unknown:
        notes.said(path, "an unknown field; it is passed over")


def _path(name: str, value: Any) -> str:
    """With what the field states, so that a reader need not look it up: instance_group(count, kind), parameters(threads)."""
    if hasattr(value, "ListFields"):
        inner = [field.name for field, _ in value.ListFields()]
    elif hasattr(value, "keys"):
        inner = sorted(value)
    elif isinstance(value, str):
        inner = []
    else:
        inner = sorted({field.name for item in value for field, _ in item.ListFields()})
    return f"{name}({', '.join(inner)})" if inner else name
