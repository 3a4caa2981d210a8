"""Computed features of training rows, from the serving engine: training cannot differ from serving.

A column of the data that contradicts the decision's computation is refused. Must not know transforms.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.decision.compile.columns import kinds
from flyball.decision.compile.document import bare_document
from flyball.decision.fit.columns import Column, Columns, absent, is_text, is_time
from flyball.errors import InvalidInputError
from flyball.native import decisions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from flyball.decision.spec.spec import Spec

ROWS_AT_ONCE = 20_000
_TOLERANCE = 1e-6  # relative: data may have float32 values, as models do
_TEXTS = ("string", "category")


def reads_of(spec: Spec, wanted: set[str]) -> set[str]:
    """`wanted` with all fields and features that its computed features depend on."""
    named, found = {*spec.input, *spec.features}, set(wanted)
    for name, feature in reversed(spec.features.items()):  # a feature reads only earlier ones
        if name in found and feature.compute is not None:
            found |= named.intersection(re.findall(r"\w+", feature.compute))
    return found


def computed_of(spec: Spec, names: set[str]) -> list[str]:
    """The computed features among `names`, in computation order."""
    return [name for name, feature in spec.features.items() if name in names and feature.compute is not None]


def with_computed(
    spec: Spec, columns: Columns, wanted: list[str], categories: Mapping[str, list[str]], data: Path
) -> Columns:
    """Add the computed features `wanted`; raises if the data has them with other values."""
    if not wanted:
        return columns
    given = {name: column for name, column in columns.items() if name not in wanted}
    types = kinds(spec)
    document = _document(spec, list(given), wanted, categories)
    count = len(next(iter(columns.values()), ()))
    found: dict[str, list[Any]] = {name: [] for name in wanted}
    for start in range(0, count, ROWS_AT_ONCE):
        rows = list(rows_of(given, types, range(start, min(count, start + ROWS_AT_ONCE))))
        for name, values in decisions.compute_features(document, rows).items():
            found[name] += values
    made = {name: _column(values, types[name]) for name, values in found.items()}
    for name in columns.keys() & made.keys():
        _check_same(name, spec.features[name].compute or "", columns[name], made[name], data)
    return {**given, **made}


def _document(spec: Spec, fields: list[str], wanted: list[str], categories: Mapping[str, list[str]]) -> dict[str, Any]:
    """A decision with only these fields and computed features; other features are fields here."""
    types, features = kinds(spec), []
    for name in wanted:
        part = spec.features[name]
        reactions = {key: getattr(part, key) for key in ("on_missing", "on_error")}
        features.append({
            "name": name, "type": types[name], "compute": part.compute, "values": categories.get(name, []),
            **({"unknown": part.unknown} if part.unknown is not None else {}),
            **{key: {"value": one.value} if one.do == "value" else "missing" for key, one in reactions.items()},
        })  # fmt: skip
    inputs = [{"name": name, "type": types[name], "required": False, "values": categories.get(name, [])} for name in fields]
    return bare_document(spec.owner, spec.purpose, input=inputs, features=features)


def rows_of(columns: Columns, types: Mapping[str, str], which: range) -> Iterator[dict[str, Any]]:
    """Rows in a request's form, without missing values."""
    cells = [_cells(column[which.start : which.stop], types[name]) for name, column in columns.items()]
    for row in zip(*cells, strict=True):
        yield {name: cell for name, cell in zip(columns, row, strict=True) if cell is not None}


def _cells(column: Column, kind: str) -> list[Any]:
    if kind in _TEXTS:
        return list(column)
    if kind == "time":
        texts = np.datetime_as_string(column)
        return [None if missing else f"{text}Z" for text, missing in zip(texts, np.isnat(column), strict=True)]
    return [_number(value, kind) for value in column.tolist()]


def _number(value: float, kind: str) -> Any:
    if math.isnan(value):
        return None
    if math.isinf(value):  # not representable in JSON; as text its field refuses it
        return str(value)
    if kind == "float" or not value.is_integer():
        return value
    return bool(value) if kind == "bool" and value in (0, 1) else int(value)


def _column(values: list[Any], kind: str) -> Column:
    if kind in _TEXTS:
        made = np.empty(len(values), dtype=object)
        made[:] = values
        return made
    if kind == "time":
        return np.array([np.iinfo(np.int64).min if value is None else value for value in values], dtype="datetime64[ns]")
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _check_same(name: str, source: str, data: Column, computed: Column, path: Path) -> None:
    if is_text(computed):
        apart = np.array([one != other for one, other in zip(data, computed, strict=True)], dtype=bool)
    elif is_time(computed):
        apart = (data != computed) & ~(absent(data) & absent(computed))
    else:
        apart = ~np.isclose(data, computed, rtol=_TOLERANCE, atol=1e-12, equal_nan=True)
    if not apart.any():
        return
    first = int(np.argmax(apart))
    raise InvalidInputError(
        f"{path}: column {name!r} differs from the decision's: in row {first + 1} it is {_shown(data[first])}, but"
        f" `{source}` gives {_shown(computed[first])}; {int(apart.sum()):,} of {len(apart):,} rows differ",
        next_step=f"remove the column, so that it is computed as in serving, or change features.{name}.compute",
    )


def _shown(value: Any) -> str:
    return {"None": "missing", "nan": "missing", "NaT": "missing"}.get(str(value), str(value))
