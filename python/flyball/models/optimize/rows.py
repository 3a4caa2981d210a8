"""Rows for comparison and calibration: named tensors, labels, and segments.

From a file of rows (a decision's fields, or the model's columns), or from a .npz with an array per input. Must not know
what is done with them.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.bench.row_tensors import tensors_of
from flyball.client import TensorMetadata
from flyball.decision.compile.columns import kinds
from flyball.decision.score.files import field_value
from flyball.errors import RefusedError
from flyball.models.convert.table import arrays_of
from flyball.native import decisions
from flyball.rows.rows_file import Record, Untyped, open_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flyball import Decision
    from flyball.decision.spec.spec import Spec
    from flyball.models.optimize.subject import Subject
    from flyball.native.model_documents import TensorSpec

    Array = np.ndarray[Any, np.dtype[Any]]

ROWS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Arrays with rows along their first axis."""

    inputs: dict[str, Array]
    labels: Array | None
    segments: Array | None
    digest: str
    names: list[str] = field(default_factory=list)
    """Column names of a table, if known."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Rows as a decision's callers send them."""

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(next(iter(self.inputs.values())))

    @property
    def is_table(self) -> bool:
        """Whether there is one numeric input with rows and columns."""
        arrays = list(self.inputs.values())
        return len(arrays) == 1 and arrays[0].ndim == 2 and arrays[0].dtype.kind == "f"

    @property
    def width(self) -> int:
        """The number of a table's columns; 0 for other inputs."""
        return next(iter(self.inputs.values())).shape[1] if self.is_table else 0

    def narrowed(self, columns: Sequence[int] | None) -> Rows:
        """The same rows with some of the table's columns; None: all."""
        return self if columns is None else replace(self, inputs=narrowed(self.inputs, columns))

    def some(self, indices: Sequence[int] | slice) -> dict[str, Array]:
        """The inputs of some rows."""
        return {name: array[indices] for name, array in self.inputs.items()}


def narrowed(inputs: Mapping[str, Array], columns: Sequence[int] | None) -> dict[str, Array]:
    """The only table with some of its columns; None: unchanged."""
    if columns is None:
        return dict(inputs)
    ((name, table),) = inputs.items()
    return {name: np.ascontiguousarray(table[:, list(columns)])}


def read_rows(
    path: Path, subject: Subject, inputs: Sequence[TensorSpec], *, labels: str | None = None, segments: str | None = None
) -> Rows:
    """Read up to 20,000 rows, evenly spread over the file."""
    if path.suffix.lower() == ".npz":
        return _from_arrays(path, [one.name for one in inputs], labels, segments)
    file = open_rows(path)
    if not file.count:
        raise RefusedError(f"{path} has no rows")
    with closing(file.pick(_spread(file.count))) as picked:
        records = list(picked)
    apart = {name: _column(path, records, name) for name in (labels, segments) if name is not None}
    numbers = None if labels is None else _numbers(path, labels, apart[labels])
    groups = None if segments is None else apart[segments]
    if subject.decision is None:
        tensors = _of_model(records, inputs, set(apart))
        return replace(_made(tensors, numbers, groups), names=_names(records, inputs, set(apart)))
    fields = _fields(path, subject.decision.spec, records)
    tensors, names = _of_decision(subject.decision, fields)
    fields_of_request = subject.decision.spec.input
    requests = [{name: value for name, value in row.items() if name in fields_of_request} for row in fields]
    return replace(_made(tensors, numbers, groups), names=names, requests=requests)


def _spread(count: int) -> list[int]:
    """Row indices, evenly spread, up to the limit."""
    indices: list[int] = np.unique(np.linspace(0, count - 1, min(count, ROWS_MAX)).astype(np.intp)).tolist()
    return indices


def _fields(path: Path, spec: Spec, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Each row's fields and features, without missing ones."""
    wanted = kinds(spec)
    needed = [name for name, field in spec.input.items() if field.required and field.default is None]
    needed += [name for name, feature in spec.features.items() if feature.compute is None]
    if lacking := [name for name in needed if name not in records[0].cells]:
        raise RefusedError(
            f"{path} lacks {', '.join(lacking)}, which the decision requires",
            next_step="add the columns; a column that the model does not use may hold any allowed value",
        )
    rows = []
    for record in records:
        cells = {name: field_value(wanted[name], cell) for name, cell in record.cells.items() if name in wanted}
        rows.append({name: value for name, value in cells.items() if value is not None})
    return rows


def _of_decision(decision: Decision, fields: Sequence[dict[str, Any]]) -> tuple[dict[str, Array], list[str]]:
    """The model's input from the decision's own transforms, and the columns' names."""
    document = decision.check().compiled.document
    tensors = document["models"][0]["inputs"]
    # Columns need no reasons, and therefore no sidecar.
    models = [{key: part for key, part in model.items() if key != "explain"} for model in document["models"]]
    document = {**document, "models": models}
    if len(tensors) != 1:
        raise RefusedError("the decision feeds several tensors", next_step="optimise the model alone, with a .npz")
    table = np.frombuffer(decisions.transform_columns(document, fields), "<f8").reshape(len(fields), -1)
    return {tensors[0]["tensor"]: table.astype(np.float32)}, list(tensors[0]["columns"])


def _names(records: Sequence[Record], inputs: Sequence[TensorSpec], apart: set[str]) -> list[str]:
    """Column names of the only input, if the file has one cell each."""
    names = [name for name in records[0].cells if name not in apart]
    return names if len(inputs) == 1 and inputs[0].name not in names else []


def _of_model(records: Sequence[Record], inputs: Sequence[TensorSpec], apart: set[str]) -> dict[str, Array]:
    specs = [TensorMetadata(one.name, one.datatype, tuple(one.shape)) for one in inputs]
    rows = []
    for record in records:
        cells = {name: cell for name, cell in record.cells.items() if name not in apart}
        rows.append(tensors_of(type(record)(record.at, cells), specs))
    return {one.name: np.concatenate([row[one.name] for row in rows]) for one in specs}


def _column(path: Path, records: Sequence[Record], name: str) -> Array:
    if name not in records[0].cells:
        known = ", ".join(records[0].cells)
        raise RefusedError(f"{path} has no column {name!r}", next_step=f"its columns are {known}")
    return np.array([record.cells[name] for record in records], dtype=object)


def _numbers(path: Path, name: str, cells: Array) -> Array:
    try:
        found = np.array([float(cell) for cell in cells])
    except (TypeError, ValueError) as error:
        raise RefusedError(
            f"{path}: labels in {name!r} must be numbers: {error}", next_step="number the classes from 0"
        ) from error
    if not np.isfinite(found).all():
        raise RefusedError(f"{path}: a label in {name!r} is missing or infinite", next_step="remove rows without a label")
    return found


def _from_arrays(path: Path, inputs: Sequence[str], labels: str | None, segments: str | None) -> Rows:
    try:
        arrays = arrays_of(path)
    except (OSError, ValueError) as error:
        raise RefusedError(
            f"cannot read {path}: {error}", next_step="write it with  numpy.savez(path, INPUT=array)"
        ) from error
    wanted = [*inputs, *(name for name in (labels, segments) if name is not None)]
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise RefusedError(f"{path} lacks {', '.join(missing)}", next_step=f"it has {', '.join(arrays) or 'nothing'}")
    lengths = {len(arrays[name]) if arrays[name].ndim else 0 for name in wanted}
    if len(lengths) != 1 or 0 in lengths:
        raise RefusedError(f"{path}: its arrays must have the same number of rows, one or more")
    indices = _spread(lengths.pop())
    tensors = {name: arrays[name][indices] for name in inputs}
    truth = None if labels is None else _numbers(path, labels, arrays[labels][indices])
    return _made(tensors, truth, None if segments is None else arrays[segments][indices])


def _made(inputs: Mapping[str, Array], labels: Array | None, segments: Array | None) -> Rows:
    digest = hashlib.sha256()
    for name, array in [*inputs.items(), ("labels", labels), ("segments", segments)]:
        if array is None:
            continue
        digest.update(json.dumps([name, str(array.dtype), list(array.shape)]).encode())
        plain = [str(cell) for cell in array] if array.dtype == object else None
        digest.update(json.dumps(plain).encode() if plain is not None else np.ascontiguousarray(array).tobytes())
    kept = None if segments is None else np.array([str(cell) if isinstance(cell, Untyped) else cell for cell in segments])
    return Rows(dict(inputs), labels, kept, f"sha256:{digest.hexdigest()}")
