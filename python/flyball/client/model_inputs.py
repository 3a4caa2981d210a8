"""What a caller passes for a model, as one array for each input, by the model's metadata. Must not know transports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.client.metadata import shape_text
from flyball.errors import InvalidInputError
from flyball.rows.casts import plain_array
from flyball.rows.frames import array_of, frame_of, row_of
from flyball.rows.tensors import Array, as_array

if TYPE_CHECKING:
    from flyball.client.metadata import ModelMetadata, TensorMetadata
    from flyball.rows.frames import Frame


_CONVERTIBLE = {"BYTES": "give str or bytes", "BOOL": "give True or False"}


@dataclass(frozen=True, slots=True)
class GivenInputs:
    """Inputs that can be read more than once, in the form in which they came; one of these."""

    frame: Frame | None = None
    named: Mapping[str, Any] | None = None
    values: Any = None
    row: Mapping[str, Any] | None = None
    """The labels of `values`, if they were a pandas Series."""


def given_inputs(inputs: object) -> GivenInputs:
    """Read generators and series, so that a call can be repeated with newer metadata."""
    frame = frame_of(inputs)
    if frame is not None:
        return GivenInputs(frame)
    if isinstance(inputs, Mapping):
        if not inputs:
            raise InvalidInputError("no inputs given")
        return GivenInputs(named={str(name): array_of(value) for name, value in inputs.items()})
    return GivenInputs(values=array_of(inputs), row=row_of(inputs))


def arrays_of(given: GivenInputs, model: ModelMetadata) -> dict[str, Array]:
    """One array for each input, of the model's types and shapes."""
    if given.frame is not None:
        return _from_frame(given.frame, model)
    named = _named(given, model) if given.named is None else given.named
    if not model.inputs:  # a server that describes none
        return {name: plain_array(value) for name, value in named.items()}
    known = _known(named, model, "inference input")
    return {name: _fitted(value, known[name], model) for name, value in named.items()}


def _named(given: GivenInputs, model: ModelMetadata) -> Mapping[str, Any]:
    """Values without a name: those of the only input, or a Series whose labels are inputs."""
    names = {tensor.name for tensor in model.inputs}
    if given.row is not None and set(given.row) <= names:
        return {name: [cell] for name, cell in given.row.items()}
    if len(names) != 1:
        raise InvalidInputError(
            f"values without a name; {_takes(model)}", next_step="pass {NAME: VALUES, …}, or a DataFrame"
        )
    return {model.inputs[0].name: given.values}


def _from_frame(frame: Frame, model: ModelMetadata) -> dict[str, Array]:
    """A column for each input; or, for a model with one matrix, the columns in their order."""
    only = model.inputs[0] if len(model.inputs) == 1 else None
    if only is not None and len(only.shape) == 2 and frame.names != (only.name,):
        return {only.name: _matrix(frame, only, model)}
    if len(set(frame.names)) != len(frame.names):
        raise InvalidInputError(f"duplicate columns in {', '.join(frame.names)}; {_takes(model)}")
    if not model.inputs:
        return {name: plain_array(frame.array(index)) for index, name in enumerate(frame.names)}
    known = _known(frame.names, model, "column")
    return {name: _fitted(frame.array(index), known[name], model, column=True) for index, name in enumerate(frame.names)}


def _matrix(frame: Frame, tensor: TensorMetadata, model: ModelMetadata) -> Array:
    width = tensor.shape[1]
    if width not in (-1, len(frame.names)):
        raise InvalidInputError(
            f"the frame has {len(frame.names)} columns ({', '.join(frame.names)}); {_takes(model)}",
            next_step=f"select its {width} columns, in their order",
        )
    columns = [_converted(frame.array(index), tensor, f"column {name!r}") for index, name in enumerate(frame.names)]
    if any(column.ndim != 1 for column in columns):
        raise InvalidInputError(f"a cell has several values; {_takes(model)}")
    return _checked(np.stack(columns, axis=1), tensor, model)


def _fitted(value: Any, tensor: TensorMetadata, model: ModelMetadata, *, column: bool = False) -> Array:
    """The value with the input's type, and with an axis of size 1 where the input has one more."""
    if isinstance(value, str | PurePath) and tensor.datatype != "BYTES":
        raise InvalidInputError(
            f"{str(value)!r} is a text; {_takes(model)}", next_step="read a file first:  pandas.read_csv(path)"
        )
    array, shape = _converted(value, tensor, f"{'column' if column else 'input'} {tensor.name!r}"), tensor.shape
    if array.ndim == 1 and len(shape) == 2:
        if shape[1] == 1 or (column and shape[1] == -1):
            array = array.reshape(-1, 1)
        elif shape[1] == len(array) and not column:
            array = array.reshape(1, -1)
    elif array.ndim == 0 and all(size in (-1, 1) for size in shape):
        array = array.reshape([1] * len(shape))
    return _checked(array, tensor, model)


def _converted(value: Any, tensor: TensorMetadata, where: str) -> Array:
    try:
        return as_array(value, tensor.datatype)
    except InvalidInputError as error:
        error.message = f"{where}: {error.message}"
        if error.next_step is None and "cannot convert" in error.message:
            error.next_step = _CONVERTIBLE.get(tensor.datatype, "give real numbers; encode text as in training")
        raise


def _checked(array: Array, tensor: TensorMetadata, model: ModelMetadata) -> Array:
    shape = tensor.shape
    if len(array.shape) != len(shape) or any(want not in (-1, size) for size, want in zip(array.shape, shape, strict=True)):
        # The server's own words.
        where = f"unexpected shape for input {tensor.name!r} for model {model.name!r}"
        raise InvalidInputError(
            f"{where}. Expected {shape_text(shape)}, got {shape_text(array.shape)} (-1 is any size)",
            next_step=_shape_step(array.shape, shape),
        )
    return array


def _shape_step(got: tuple[int, ...], wanted: Sequence[int]) -> str:
    """What to change, for the usual case of a matrix and for any other."""
    if len(got) == len(wanted) == 2 and wanted[1] != -1 and got[1] != wanted[1]:
        return f"give {wanted[1]} {'value' if wanted[1] == 1 else 'values'} in each row"
    if tuple(wanted).count(-1) <= 1:
        return f"reshape the values:  array.reshape({', '.join(map(str, wanted))})"
    return f"give an array of {len(wanted)} dimensions"


def _known(names: Iterable[str], model: ModelMetadata, what: str) -> dict[str, TensorMetadata]:
    """The model's inputs by name; raises for a name that is none."""
    known = {tensor.name: tensor for tensor in model.inputs}
    for name in names:
        if name not in known:
            by_lower = {other.lower(): other for other in known}
            near = get_close_matches(name.lower(), by_lower, n=1)
            meant = f"; did you mean {by_lower[near[0]]!r}?" if near else ""
            raise InvalidInputError(
                f"unexpected {what} {name!r}; {_takes(model)}{meant}", next_step=f"use its input names:  {', '.join(known)}"
            )
    return known


def _takes(model: ModelMetadata) -> str:
    inputs = ", ".join(f"{item.name} {item.datatype} {shape_text(item.shape)}" for item in model.inputs)
    free = " (-1 is any size)" if any(-1 in item.shape for item in model.inputs) else ""
    return f"model {model.name!r} takes {inputs or 'inputs that its server does not describe'}{free}"
