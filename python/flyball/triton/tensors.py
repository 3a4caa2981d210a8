"""Compares a configuration's inputs and outputs with those in the model's file: other shapes are clients' shapes.

Other differences are reported. A type or shape missing in the file is not compared. Must not know terms or versions.
"""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from flyball.documents.snapshot.models import RANK_MAX, SHAPES_MAX, ClientShape
from flyball.errors import ModelRefusedError
from flyball.native.models import scan_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flyball.native.model_documents import DeclaredTensor, ModelFiles
    from flyball.triton.config import Config
    from flyball.triton.layout import ModelFolder
    from flyball.triton.report import Notes

_LABELS_OF = "label_filename"
# Tensor flags without a counterpart, and the behaviour here.
_FLAGS = {
    "is_shape_tensor": "ONNX Runtime has no shape tensors",
    "allow_ragged_batch": "rows of different lengths are not batched",
    "is_non_linear_format_io": "tensors are in the plain, linear layout",
}
# By the numbers of Triton's enumeration ModelInput.Format.
_LAYOUTS: dict[int, Literal["NCHW", "NHWC"]] = {1: "NHWC", 2: "NCHW"}
_IMAGE_AXES = 3


def shapes_of(config: Config, files: ModelFiles, notes: Notes) -> dict[str, ClientShape]:
    """The shapes for clients where they differ from the model's; other differences are reported."""
    batched = config.message.max_batch_size > 0
    shapes: dict[str, ClientShape] = {}
    for role, stated, declared in (
        ("input", config.message.input, [*files.inputs, *_named_constants(config, files)]),
        ("output", config.message.output, files.outputs),
    ):
        if not stated:
            continue
        before = len(notes)
        by_name = {tensor.name: tensor for tensor in declared}
        for tensor in stated:
            path = f'{role} "{tensor.name}"'
            _say_flags(tensor, path, notes)
            if tensor.name in by_name:
                shape = _compare_one(tensor, by_name[tensor.name], path, batched, notes)
                shapes |= {} if shape is None else {tensor.name: shape}
            else:
                raise ModelRefusedError(f"{path}: the model has no such {role}; it has {_listed(list(by_name))}")
        left_out = [name for name in by_name if name not in {tensor.name for tensor in stated}]
        if left_out:
            more = "clients must send" if role == "input" else "clients that request no output also get"
            notes.unmapped(role, f"{more} {_listed(left_out)}, which the configuration omits")
        if len(notes) == before:
            notes.mapped(role, f"as in the model: {_listed([tensor.name for tensor in stated])}")
    if len(shapes) > SHAPES_MAX:
        raise ModelRefusedError(f"{len(shapes)} tensors have other shapes than in the model; {SHAPES_MAX} are the most")
    return shapes


def optional_of(config: Config, files: ModelFiles, notes: Notes) -> list[str]:
    """The inputs that clients may leave out: the configuration names them, and the model has a constant for each."""
    constants = [constant.name for constant in _named_constants(config, files)]
    for tensor in config.message.input:
        path = f'input "{tensor.name}" optional'
        if tensor.name in constants:
            if tensor.HasField("reshape"):
                raise ModelRefusedError(f"{path}: an input with a default cannot have a reshape")
            notes.mapped(path, "clients may leave it out; its default is the model's constant")
        elif tensor.optional:
            notes.unmapped(path, "the model has no default, so a request must contain it")
    return constants


def say_texts(path: Path, files: ModelFiles, notes: Notes) -> None:
    """Report BYTES inputs that must be UTF-8: ONNX defines strings so, and operators of the model read them."""
    texts = [tensor.name for tensor in files.inputs if tensor.datatype == "BYTES"]
    if not texts:
        return
    # A server refuses what the scan refuses, when it loads the model.
    with suppress(ModelRefusedError):
        if not scan_model(path).moves_texts:
            notes.unmapped(f"input {_listed(texts)}", "BYTES must be UTF-8: this model computes on texts")


def _named_constants(config: Config, files: ModelFiles) -> list[DeclaredTensor]:
    named = {tensor.name for tensor in config.message.input}
    return [constant for constant in files.optional_inputs if constant.name in named]


def labels_of(config: Config, folder: ModelFolder, notes: Notes) -> dict[str, list[str]]:
    """The labels of each output with a readable label_filename."""
    from flyball.documents.snapshot.models import LABEL_CHARACTERS_MAX, LABELLED_OUTPUTS_MAX, LABELS_MAX

    found: dict[str, list[str]] = {}
    for output in config.message.output:
        if not output.label_filename:
            continue
        path = f'output "{output.name}" {_LABELS_OF}'
        try:
            labels = folder.labels(output.label_filename)
        except ModelRefusedError as error:
            notes.unmapped(path, f"no labels: {error.message}")
            continue
        longest = max(map(len, labels))
        if len(found) == LABELLED_OUTPUTS_MAX or len(labels) > LABELS_MAX or longest > LABEL_CHARACTERS_MAX:
            bounds = f"{LABELLED_OUTPUTS_MAX} outputs, {LABELS_MAX} labels, {LABEL_CHARACTERS_MAX} characters"
            notes.unmapped(path, f"no labels: above the limits of a snapshot ({bounds})")
            continue
        found[output.name] = labels
        notes.mapped(path, f"{len(labels)} label{'s' * (len(labels) != 1)} for classification")
    return found


def _compare_one(stated: Any, declared: DeclaredTensor, path: str, batched: bool, notes: Notes) -> ClientShape | None:
    kind = _datatype(stated)
    if kind and declared.datatype and kind != declared.datatype:
        notes.unmapped(f"{path} data_type", f"{kind} differs from the model's {declared.datatype}")
    layout = _layout(stated, path)
    if not stated.dims:
        return None
    reshaped = stated.HasField("reshape")
    dims, inside = list(stated.dims), list(stated.reshape.shape if reshaped else stated.dims)
    if max(len(dims), len(inside)) >= RANK_MAX:
        raise ModelRefusedError(f"{path}: dims and reshape have at most {RANK_MAX - 1} axes")
    if _content(dims) != _content(inside):
        raise ModelRefusedError(
            f"{path}: reshape {_shown(inside)} must have as many elements and free axes (-1) as dims {_shown(dims)}"
        )
    rows = [-1] if batched else []
    if not (reshaped or rows or declared.shape):
        return _scalar(dims, path, notes)
    shape = ClientShape(client=rows + dims, model=rows + inside, layout=layout)
    if declared.shape is not None and not _fits(shape.model, declared.shape):
        before = " after the batch axis" if batched else ""
        notes.unmapped(f"{path} dims", f"{_shown(inside)}{before} differs from the model's {_shown(declared.shape)}")
        return None
    if reshaped:
        notes.mapped(f"{path} reshape", f"clients use {_shown(shape.client)}, the model {_shown(shape.model)}")
    elif declared.shape is None:
        return None
    elif shape.client != declared.shape:
        notes.mapped(f"{path} dims", f"clients use {_shown(shape.client)}; the model allows {_shown(declared.shape)}")
    elif layout is None:
        return None
    if layout is not None:
        notes.mapped(f"{path} format", f"{layout}, on the model's configuration page")
    return shape


def _layout(stated: Any, path: str) -> Literal["NCHW", "NHWC"] | None:
    """The layout of an image input; as in Triton, it has three axes beside the rows."""
    layout = _LAYOUTS.get(getattr(stated, "format", 0))
    if layout is not None and len(stated.dims) != _IMAGE_AXES:
        raise ModelRefusedError(f"{path}: format FORMAT_{layout} needs dims of {_IMAGE_AXES} axes, not {len(stated.dims)}")
    return layout


def _scalar(dims: list[int], path: str, notes: Notes) -> ClientShape | None:
    """Triton's configurations cannot say that a tensor has no axes: they give it axes of one element."""
    if set(dims) == {1}:
        notes.mapped(f"{path} dims", f"clients use {_shown(dims)}; the model has a scalar")
        return ClientShape(client=dims, model=[])
    if path.startswith("input"):
        raise ModelRefusedError(f"{path}: dims {_shown(dims)} must have one element: the model takes a scalar")
    return None


def _content(shape: Sequence[int]) -> tuple[int, int]:
    """The elements of the fixed axes, and the number of free ones."""
    return prod(axis for axis in shape if axis != -1), sum(axis == -1 for axis in shape)


def _fits(stated: Sequence[int], declared: Sequence[int]) -> bool:
    """As in Triton: a free axis of the model matches any size, another only itself."""
    if len(stated) != len(declared):
        return False
    return all(ours in (-1, theirs) for ours, theirs in zip(declared, stated, strict=True))


def _datatype(stated: Any) -> str | None:
    """The V2 name of a type; None if not configured."""
    name = stated.DESCRIPTOR.fields_by_name["data_type"].enum_type.values_by_number[stated.data_type].name
    return {"TYPE_INVALID": None, "TYPE_STRING": "BYTES"}.get(name, name.removeprefix("TYPE_"))


def _say_flags(stated: Any, path: str, notes: Notes) -> None:
    for field, _ in stated.ListFields():
        if field.name in _FLAGS:
            notes.unmapped(f"{path} {field.name}", _FLAGS[field.name])


def _shown(shape: Sequence[int] | None) -> str:
    return "unknown" if shape is None else "[" + ", ".join(map(str, shape)) + "]"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + ", …" * (len(names) > 8) if names else "none"
