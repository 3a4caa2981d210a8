"""Training rows read like requests: rows that serving rejects are refused, and transforms are fitted on the others.

Must not know paths: the caller gives the rows and the output file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flyball.decision.compile.columns import kinds, open_steps, touched, whole_steps
from flyball.decision.compile.document import bare_document, field_document, known_to, part_of, values_of
from flyball.decision.compile.files import Files
from flyball.decision.fit.columns import Column, Columns, absent, apply, is_text
from flyball.decision.fit.fitted import Fitted
from flyball.decision.fit.learn import fit_transforms, is_open
from flyball.decision.spec.faults import Origin, refusal
from flyball.decision.spec.read import read_spec
from flyball.decision.spec.spec import Spec
from flyball.decision.training.computed import ROWS_AT_ONCE, computed_of, reads_of, rows_of, with_computed
from flyball.errors import Fault, InvalidInputError
from flyball.native import decisions
from flyball.rows.columns import read_columns

_COUNTED_MAX = 1000  # each costs about a millisecond
_ROWS_AFTER_FAULT = 16  # doubled while no row is rejected: rows after a rejected one are read again


def fit_spec(spec: Spec, base: Path, origin: Origin, data: Path, *, target: str | None = None) -> Fitted:
    """Fit the parameters of every open transform."""
    steps = open_steps(spec)
    if not any(is_open(step) for step in steps):
        raise InvalidInputError(
            f"{spec.decision}: no transform has open parameters", next_step="omit the parameters that should be fitted"
        )
    wanted = {name for step in steps for name in step["of"]}
    columns, truth = _columns(spec, Files(base, origin), wanted, data, target)
    return fit_transforms(steps, columns, target=truth)


def training_rows(decision: str | Path, data: str | Path, *, target: str) -> tuple[list[str], NDArray[np.float32], Column]:
    """Training data of the model: column names, rows as float32, and the target.

    The decision's own transforms make the columns, with their fitted parameters, and the serving engine computes features,
    so that training and serving cannot drift apart: rows that serving rejects are refused, and so is a column of the data
    that contradicts the decision. The columns are those that the model lists, else all that transforms made or changed.
    The decision must have one model. `data` is .parquet, .csv or .jsonl.
    """
    decision, data = Path(decision), Path(data)
    spec, origin = read_spec(decision)
    if spec.model is None and spec.models is None:
        raise InvalidInputError(
            f"{decision}: the decision has no model, so it has no training columns",
            next_step="add the model to train:  model: {path: MODEL.onnx, …}",
        )
    files = Files(decision.parent, origin)
    steps = whole_steps(spec, {name: found for name in kinds(spec) if (found := _categories(spec, name, files))}, files)
    if files.faults:
        raise refusal(origin, files.faults)
    listed = spec.model.columns[0].columns if spec.model else None
    names = listed or touched(steps, [*spec.input, *spec.features])
    if not names:
        raise InvalidInputError(f"{decision}: the model has no columns", next_step="list them in model.columns")
    sources = {*names, *(name for step in steps for name in step["of"])}
    columns, truth = _columns(spec, files, sources, data, target)
    for step in steps:
        columns = apply(step, columns)
    assert truth is not None  # noqa: S101 - a target was named
    return names, np.stack([columns[name] for name in names], axis=1).astype(np.float32), truth


def _columns(spec: Spec, files: Files, wanted: set[str], data: Path, target: str | None) -> tuple[Columns, Column | None]:
    """Read the wanted fields and features like requests, and add computed features."""
    needed = reads_of(spec, wanted)
    computed = computed_of(spec, needed)
    types = {name: kind for name, kind in kinds(spec).items() if name in needed}
    columns, truth = read_columns(data, types, target=target, optional=computed)
    categories = {name: _categories(spec, name, files) for name in types}
    if files.faults:
        raise refusal(files.origin, files.faults)
    _refuse_rejected(spec, columns, categories, data)
    read = {name: _as_read(spec, name, column, files) for name, column in columns.items()}
    return with_computed(spec, read, computed, categories, data), truth


def _as_read(spec: Spec, name: str, column: Column, files: Files) -> Column:
    """Replace unknown and missing values as the schema does."""
    part = part_of(spec, name)
    if part.unknown is not None and is_text(column):
        known = {*_categories(spec, name, files), None}
        column = np.array([value if value in known else part.unknown for value in column], dtype=object)
    default = getattr(part, "default", None)
    if default is not None and column.dtype.kind != "M":
        column = column.copy()
        column[absent(column)] = default
    return column


def _categories(spec: Spec, name: str, files: Files) -> list[str]:
    """The values of a category, with the replacement of unknown ones; empty for other types."""
    values = values_of(spec, name, files)
    return known_to(spec, name, values) if values else []


def _refuse_rejected(spec: Spec, columns: Columns, categories: Mapping[str, list[str]], data: Path) -> None:
    """Raise if serving rejects a row: a model would learn from values that no request can have.

    `columns` are the data's, without defaults.
    """
    fields = {name: column for name, column in columns.items() if name in spec.input}
    count = len(next(iter(fields.values()), ()))
    faults = _faults(spec, fields, categories, count)
    first = next(faults, None)
    if first is None:
        return
    row, name, allowed = first
    more = sum(1 for _, _ in zip(range(_COUNTED_MAX - 1), faults, strict=False))
    rejected = f"{_COUNTED_MAX:,} or more" if more == _COUNTED_MAX - 1 else f"{more + 1:,}"
    value = next(rows_of({name: fields[name]}, kinds(spec), range(row, row + 1))).get(name)
    shown = "personal data" if spec.input[name].pii and value is not None else value
    raise InvalidInputError(
        f"{data}: serving rejects {rejected} of {count:,} rows; the first is row {row + 1}",
        faults=[Fault(name, shown, allowed)],
        next_step=f"remove or correct these rows, or change input.{name} in the decision",
    )


def _faults(spec: Spec, fields: Columns, categories: Mapping[str, list[str]], count: int) -> Iterator[tuple[int, str, str]]:
    """Each rejected row in order: its number, its first invalid field, and what is allowed."""
    inputs = [field_document(name, spec.input[name], categories.get(name, [])) for name in fields]
    document = bare_document(spec.owner, spec.purpose, input=inputs)
    start, size = 0, ROWS_AT_ONCE
    while fields and start < count:
        which = range(start, min(count, start + size))
        try:
            decisions.compute_features(document, list(rows_of(fields, kinds(spec), which)))
            start, size = which.stop, min(2 * size, ROWS_AT_ONCE)
        except InvalidInputError as error:
            if error.row is None:
                raise
            start, size = start + error.row + 1, _ROWS_AFTER_FAULT
            yield start - 1, error.faults[0].path, error.faults[0].allowed
