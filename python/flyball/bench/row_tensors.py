"""Converts a file's rows to request tensors, checking every cell against the model's datatypes.

Must not know servers: the model's signature is a parameter.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from flyball.bench.allowed_values import shown
from flyball.errors import RefusedError
from flyball.rows.rows_file import Untyped, open_rows
from flyball.rows.tensors import Array, as_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from flyball.client import TensorMetadata
    from flyball.rows.rows_file import Record

_WHOLE = {f"INT{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)} | {
    f"UINT{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)
}
_LARGEST = {"FP16": 65504.0, "FP32": float(np.finfo(np.float32).max), "FP64": float(np.finfo(np.float64).max)}
_Row = TypeVar("_Row")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def rows_from_file(
    path: Path, inputs: Sequence[TensorMetadata], count: int, seed: int, note: Callable[[str], None] | None = None
) -> list[dict[str, Array]]:
    """Rows of a file as tensors."""
    return drawn(path, count, seed, lambda record: tensors_of(record, inputs), note)


def drawn(
    path: Path, count: int, seed: int, read: Callable[[Record], _Row], note: Callable[[str], None] | None = None
) -> list[_Row]:
    """Rows of a file in seeded random order, repeated only if the file has too few."""
    file = open_rows(path)
    if not file.count:
        raise RefusedError(f"{path} has no rows", code="payloads_refused")
    random = np.random.default_rng(seed)
    order: list[int] = random.choice(file.count, min(count, file.count), replace=False).tolist()
    if count > file.count:
        order += random.integers(file.count, size=count - file.count).tolist()
        if note:
            note(f"{path} has {file.count:,} rows, which are repeated to make {count:,} payloads")
    indices = sorted(set(order))
    with closing(file.pick(indices)) as records:
        rows = {index: read(record) for index, record in zip(indices, records, strict=True)}
    return [rows[index] for index in order]


def tensors_of(record: Record, inputs: Sequence[TensorMetadata]) -> dict[str, Array]:
    """A row's tensors: from a V2 request, cells named after the inputs, or the only input's columns in order."""
    try:
        if _is_request(record.cells):
            return _from_request(record.cells["inputs"], inputs)
        if all(spec.name in record.cells for spec in inputs):
            return {spec.name: _named(record.cells[spec.name], spec) for spec in inputs}
        return _from_columns(record.cells, inputs)
    except ValueError as error:
        raise RefusedError(f"{record.at}: {error}", code="payloads_refused") from error


def _is_request(cells: dict[str, Any]) -> bool:
    items = cells.get("inputs")
    return isinstance(items, list) and bool(items) and all(isinstance(item, dict) for item in items)


def _from_request(items: list[dict[str, Any]], inputs: Sequence[TensorMetadata]) -> dict[str, Array]:
    known = {spec.name: spec for spec in inputs}
    arrays = {}
    for item in items:
        lacking = [key for key in ("name", "datatype", "shape", "data") if key not in item]
        if lacking:
            raise ValueError(f"an entry of 'inputs' has no {lacking[0]}")
        spec = known.get(item["name"]) if isinstance(item["name"], str) else None
        if spec is None:
            raise ValueError(f"unknown input {shown(item['name'])}; the model's inputs are {', '.join(known)}")
        if item["datatype"] != spec.datatype:
            raise ValueError(f"input {spec.name!r} is {shown(item['datatype'])}; allowed: {spec.datatype}")
        array = _array(item["data"], spec.datatype, f"input {spec.name!r}")
        arrays[spec.name] = _shaped(array, item["shape"], spec)
    missing = [name for name in known if name not in arrays]
    if missing:
        raise ValueError(f"the input {missing[0]!r} is missing")
    return arrays


def _from_columns(cells: dict[str, Any], inputs: Sequence[TensorMetadata]) -> dict[str, Array]:
    if len(inputs) != 1 or len(inputs[0].shape) != 2:
        shapes = ", ".join(f"{spec.name!r} {list(spec.shape)}" for spec in inputs)
        raise ValueError(f"columns must be named after the inputs, which are {shapes}; found {', '.join(cells)}")
    spec = inputs[0]
    width = spec.shape[1]
    if width not in (-1, len(cells)):
        raise ValueError(f"has {len(cells)} columns, but the input {spec.name!r} takes {width}; remove the others")
    row = [_array(cell, spec.datatype, f"column {name!r}") for name, cell in cells.items()]
    several = next((name for name, array in zip(cells, row, strict=True) if array.ndim), None)
    if several is not None:
        raise ValueError(f"column {several!r} has a list, but the input {spec.name!r} takes one value per column")
    return {spec.name: np.stack(row).reshape(1, -1)}


def _named(cell: object, spec: TensorMetadata) -> Array:
    """A cell as its input: with its batch axis, without it, or flat."""
    array = _array(cell, spec.datatype, f"column {spec.name!r}")
    if _fits(array.shape, spec.shape):
        return array
    if _fits((1, *array.shape), spec.shape):
        return array[np.newaxis]
    one_row = [max(size, 1) for size in spec.shape]
    if array.size == np.prod(one_row):
        return array.reshape(one_row)
    raise ValueError(f"column {spec.name!r} has shape {list(array.shape)}; allowed: {list(spec.shape)} (-1 is any)")


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(shape) == len(wanted) and all(want in (-1, size) for size, want in zip(shape, wanted, strict=True))


def _shaped(array: Array, shape: Any, spec: TensorMetadata) -> Array:
    """Flat or nested data in the request's shape."""
    if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"input {spec.name!r}: {shown(shape)} is not a shape")
    if not _fits(tuple(shape), spec.shape):
        raise ValueError(f"input {spec.name!r} has shape {shape}; allowed: {list(spec.shape)} (-1 is any)")
    if array.size != np.prod(shape, dtype=np.int64):
        raise ValueError(f"input {spec.name!r}: {array.size} values do not fill the shape {shape}")
    return array.reshape(shape)


def _array(cell: object, datatype: str, name: str) -> Array:
    """A cell as an array; the error names the first element that does not fit the datatype."""
    value = _parsed(cell, datatype) if isinstance(cell, Untyped) else cell
    elements = np.array(value, dtype=object)
    flat = elements.ravel().tolist()
    for element in flat:
        if isinstance(element, list):
            raise ValueError(f"{name} has lists of different lengths")
        if not _is(element, datatype):
            raise ValueError(f"{name} is {shown(element)}; allowed: {_allowed(datatype)}")
    plain = [int(element) for element in flat] if datatype in _WHOLE else flat
    return as_array(plain, datatype).reshape(elements.shape)


def _is(element: object, datatype: str) -> bool:
    """Whether a value fits a datatype without loss. Whole floats pass as integers: tables with gaps write them so."""
    if datatype == "BYTES":
        return isinstance(element, str)
    if datatype == "BOOL" or isinstance(element, bool):
        return datatype == "BOOL" and isinstance(element, bool)
    if not isinstance(element, int | float):
        return False
    if datatype in _WHOLE:
        low, high = _WHOLE[datatype]
        return low <= element <= high and element == int(element)
    return datatype in _LARGEST and abs(element) <= _LARGEST[datatype]


def _allowed(datatype: str) -> str:
    if datatype in _WHOLE:
        return "{} to {} ({})".format(*_WHOLE[datatype], datatype)
    if datatype in _LARGEST:
        return f"a finite number ({datatype})"
    return {"BYTES": "text (BYTES)", "BOOL": "true or false (BOOL)"}.get(datatype, f"nothing: {datatype} has no text form")


def _parsed(text: str, datatype: str) -> object:
    """A parsed CSV cell; unparsable text stays text, and is refused later."""
    if datatype == "BYTES":
        return str(text)
    bare = text.strip()
    if datatype == "BOOL":
        return _BOOLEANS.get(bare.lower(), bare)
    for kind in (int, float):
        try:
            return kind(bare.replace("_", "?"))  # only Python reads 1_000 as a number
        except ValueError:
            continue
    return bare
