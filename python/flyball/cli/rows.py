"""Reads JSON or CSV into a model's inputs. Must not know servers: it is given the signature."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

from flyball.cli.plain_words import not_json
from flyball.errors import InvalidInputError, ServerFaultError
from flyball.rows.tensors import Array, as_array, decode_data

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flyball.client import TensorMetadata

    Signature = Callable[[], Sequence[TensorMetadata]]


def read_inputs(text: str, signature: Signature) -> dict[str, Array]:
    """Parse the model's inputs; `signature` is only called if the text does not state the datatypes."""
    stripped = text.lstrip("\ufeff \t\r\n")
    if not stripped:
        raise InvalidInputError("the input is empty", next_step='give rows, such as  {"input": [[1, 2, 3]]}')
    if stripped[0] not in "{[":
        if "\n" not in stripped.rstrip() and _is_number(stripped):
            raise InvalidInputError(
                f"the input is a single number, {stripped.strip()}", next_step="give rows, such as  [[1, 2, 3]]"
            )
        return _from_csv(stripped, signature())
    try:
        document = json.loads(stripped)
    except ValueError as error:
        raise InvalidInputError(f"the input is {not_json(error)}", next_step="give rows, such as  [[1, 2, 3]]") from error
    if isinstance(document, list):
        return {_only(signature()).name: as_array(document, _only(signature()).datatype)}
    if isinstance(document.get("inputs"), list):
        return _from_v2(document["inputs"])
    return _from_names(document, signature())


def _from_v2(items: list[Any]) -> dict[str, Array]:
    arrays = {}
    for item in items:
        try:
            name, datatype, shape = item["name"], item["datatype"], tuple(item["shape"])
            arrays[name] = decode_data(name, datatype, shape, item["data"])
        except (KeyError, TypeError) as error:
            raise InvalidInputError(f"an entry of 'inputs' needs name, datatype, shape and data: {error}") from error
        except ServerFaultError as error:
            raise InvalidInputError(f"input {item['name']!r}: {error.message.partition('read: ')[2]}") from error
    return arrays


def _from_names(document: dict[str, Any], inputs: Sequence[TensorMetadata]) -> dict[str, Array]:
    by_name = {spec.name: spec for spec in inputs}
    unknown = [name for name in document if name not in by_name]
    if unknown:
        raise InvalidInputError(f"the model has no input {unknown[0]!r}; its inputs are {', '.join(by_name)}")
    return {name: as_array(value, by_name[name].datatype) for name, value in document.items()}


def _from_csv(text: str, inputs: Sequence[TensorMetadata]) -> dict[str, Array]:
    head, *rows = [row for row in csv.reader(text.splitlines()) if row]
    names = [name.strip() for name in head]
    if all(_is_number(name) for name in names) and not any(spec.name in names for spec in inputs):
        raise InvalidInputError(
            "the first line of the CSV is all numbers; it must be a header",
            next_step="add a header line with the column names, or give JSON:  [[1, 2, 3]]",
        )
    if not rows:
        raise InvalidInputError("the CSV has a header but no rows")
    ragged = next((number for number, row in enumerate(rows, start=2) if len(row) != len(head)), None)
    if ragged is not None:
        raise InvalidInputError(f"line {ragged} of the CSV has {len(rows[ragged - 2])} cells; its header has {len(head)}")
    if all(spec.name in names for spec in inputs):
        return {spec.name: _column(rows, names.index(spec.name), spec) for spec in inputs}
    spec = _only(inputs)
    if len(spec.shape) != 2:
        raise InvalidInputError(f"CSV cannot fill the input {spec.name!r} of shape {list(spec.shape)}; give JSON")
    return {spec.name: as_array(rows, spec.datatype)}


def _column(rows: list[list[str]], index: int, spec: TensorMetadata) -> Array:
    column = as_array([row[index] for row in rows], spec.datatype)
    return column.reshape(-1, *[1] * (len(spec.shape) - 1))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _only(inputs: Sequence[TensorMetadata]) -> TensorMetadata:
    if len(inputs) != 1:
        names = ", ".join(spec.name for spec in inputs)
        raise InvalidInputError(f"the model has {len(inputs)} inputs ({names}); give each of them by name")
    return inputs[0]
