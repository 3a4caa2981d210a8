"""Reads Parquet, CSV or JSON Lines into typed columns. Needs pyarrow.

Must not know specs: names and types are parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import InvalidInputError, needing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from flyball.decision.fit.columns import Column, Columns

_NUMBERS = ("bool", "int", "float")


def read_columns(
    path: Path, kinds: Mapping[str, str], *, target: str | None = None, optional: Collection[str] = ()
) -> tuple[Columns, Column | None]:
    """The columns in `kinds` (name to field type), and the target if given.

    `optional` columns may be missing from the file.
    """
    table = table_of(path)
    kinds = {name: kind for name, kind in kinds.items() if name in table.column_names or name not in optional}
    wanted = [*kinds, *([target] if target else [])]
    if absent := [name for name in wanted if name not in table.column_names]:
        raise InvalidInputError(
            f"{path} has no column {', '.join(map(repr, absent))}; it has {named(table.column_names)}",
            next_step="name the columns after the decision's fields and features",
        )
    columns = {name: _column(path, name, kind, table.column(name)) for name, kind in kinds.items()}
    return columns, None if target is None else _column(path, target, "float", table.column(target))


def named(columns: Sequence[str], most: int = 12) -> str:
    """The names of columns for a message, not too many of them."""
    shown = ", ".join(columns[:most]) or "none"
    return f"{shown}, …" if len(columns) > most else shown


def table_of(path: Path) -> Any:
    """The file as a pyarrow Table, each column with the type of its values."""
    with needing("reading rows needs pyarrow", extra="rows"):
        from pyarrow import ArrowInvalid, csv, json, parquet
    try:
        if path.suffix == ".csv":
            # Text stays as it is; an empty cell is missing.
            return csv.read_csv(path, convert_options=csv.ConvertOptions(strings_can_be_null=True, null_values=[""]))
        return json.read_json(path) if path.suffix == ".jsonl" else parquet.read_table(path)
    except ArrowInvalid as error:
        raise InvalidInputError(f"cannot read {path}: {str(error).splitlines()[0]}") from error
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror or 'no such file'}") from error


def _column(path: Path, name: str, kind: str, column: Any) -> Column:
    import pyarrow as pa

    try:
        if kind in _NUMBERS:
            if pa.types.is_boolean(column.type):
                column = column.cast(pa.int8())
            return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
        if kind == "time":
            return _times(column)
        made = np.empty(len(column), dtype=object)
        made[:] = column.cast(pa.string()).to_pylist()
        return made
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"{path}: column {name!r} is not {kind}: {str(error).splitlines()[0]}") from error


def _times(column: Any) -> Column:
    """RFC 3339 texts, timestamps, or seconds since 1970, as in requests."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return np.asarray(column.cast(pa.timestamp("ns")).to_numpy(), dtype="datetime64[ns]")
    if pa.types.is_string(column.type):
        return _times(column.cast(pa.timestamp("ns", tz="UTC")).cast(pa.timestamp("ns")))
    seconds = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    nanoseconds = np.where(np.isnan(seconds), 0, np.rint(seconds * 1e9)).astype(np.int64).astype("datetime64[ns]")
    return np.where(np.isnan(seconds), np.datetime64("NaT", "ns"), nanoseconds)
