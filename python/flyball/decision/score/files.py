"""Reads and writes files of rows with added columns: Parquet, CSV or JSON Lines, in the same order.

Must not know decisions: a result is a few more cells for a row.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Protocol, TextIO

from flyball.errors import RefusedError, needing
from flyball.rows.rows_file import SUFFIXES, Untyped, open_rows, open_text, parquet_file, readable


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a file, in order; `batch` is pyarrow's, for Parquet."""

    rows: list[dict[str, Any]]
    batch: Any = None


class RowsIn:
    """A file of rows, read chunk by chunk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parquet = path.suffix.lower() == ".parquet"
        self._file: Any
        with readable(path):
            self._file = parquet_file(path) if self._parquet else open_rows(path)
        self.count: int = self._file.metadata.num_rows if self._parquet else self._file.count
        self.columns = self._names()
        self.schema: Any = self._file.schema_arrow if self._parquet else None

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All rows, in chunks of `size`."""
        if self._parquet:
            for batch in self._file.iter_batches(batch_size=size):
                yield Chunk(batch.to_pylist(), batch)
            return
        rows: list[dict[str, Any]] = []
        for record in self._file.pick(range(self.count)):
            rows.append(record.cells)
            if len(rows) == size:
                yield Chunk(rows)
                rows = []
        if rows:
            yield Chunk(rows)

    def _names(self) -> list[str]:
        if self._parquet:
            return list(self._file.schema_arrow.names)
        if self._path.suffix.lower() == ".csv":
            with readable(self._path), open_text(self._path) as file:
                return [name.strip() for name in next((cells for cells in csv.reader(file) if cells), [])]
        # Lines may have different keys: each is a column.
        return list(dict.fromkeys(name for record in self._file.pick(range(self.count)) for name in record.cells))


class RowsOut(Protocol):
    """A writer of chunks with their results."""

    def write(self, chunk: Chunk, results: Sequence[dict[str, Any]]) -> None:
        """Add rows, each with its result."""

    def close(self) -> None:
        """Finish the file."""


def out_suffix(path: Path) -> str:
    """The suffix, which is the format; raises for an unknown one."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise RefusedError(f"{path} has an unknown suffix", next_step=f"use one of {', '.join(SUFFIXES)}")
    return suffix


def open_out(path: Path, rows: RowsIn, added: dict[str, str]) -> RowsOut:
    """Open a file in the format of its suffix; `added` maps result columns to "text" or "number"."""
    suffix = out_suffix(path)
    try:
        if suffix == ".parquet":
            return _ParquetOut(path, rows, added)
        file = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise RefusedError(f"cannot write {path}: {error.strerror or error}") from error
    return _CsvOut(file, [*rows.columns, *added]) if suffix == ".csv" else _JsonLinesOut(file)


class _CsvOut:
    def __init__(self, file: TextIO, columns: list[str]) -> None:
        self._file = file
        self._writer = csv.DictWriter(file, columns)
        self._writer.writeheader()

    def write(self, chunk: Chunk, results: Sequence[dict[str, Any]]) -> None:
        for row, result in zip(chunk.rows, results, strict=True):
            self._writer.writerow({name: _cell(value) for name, value in {**row, **result}.items()})

    def close(self) -> None:
        self._file.close()


class _JsonLinesOut:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, chunk: Chunk, results: Sequence[dict[str, Any]]) -> None:
        for row, result in zip(chunk.rows, results, strict=True):
            self._file.write(json.dumps({**row, **result}, ensure_ascii=False, default=_cell) + "\n")

    def close(self) -> None:
        self._file.close()


class _ParquetOut:
    """Columns of a Parquet input keep their types; those of other files are text."""

    def __init__(self, path: Path, rows: RowsIn, added: dict[str, str]) -> None:
        with needing("writing Parquet needs pyarrow", extra="rows"):
            import pyarrow
            from pyarrow import parquet
        self._pyarrow: Any = pyarrow
        kinds = {"text": pyarrow.string(), "number": pyarrow.float64()}
        kept = (
            list(rows.schema)
            if rows.schema is not None
            else [pyarrow.field(name, pyarrow.string()) for name in rows.columns]
        )
        self._added = [pyarrow.field(name, kinds[kind]) for name, kind in added.items()]
        self._schema = pyarrow.schema([*kept, *self._added])
        self._kept = [field.name for field in kept]
        self._writer: Any = parquet.ParquetWriter(str(path), self._schema)

    def write(self, chunk: Chunk, results: Sequence[dict[str, Any]]) -> None:
        if chunk.batch is not None:
            columns = list(chunk.batch.columns)
        else:
            columns = [self._texts([row.get(name) for row in chunk.rows]) for name in self._kept]
        columns += [self._pyarrow.array([result.get(field.name) for result in results], field.type) for field in self._added]
        self._writer.write_table(self._pyarrow.Table.from_arrays(columns, schema=self._schema))

    def _texts(self, values: list[Any]) -> Any:
        return self._pyarrow.array(
            [None if value is None else str(_cell(value)) for value in values], self._pyarrow.string()
        )

    def close(self) -> None:
        self._writer.close()


def field_value(kind: str, value: Any) -> Any:
    """Convert a cell to a field's JSON value, None if it is missing; a value that does not fit stays as it is."""
    if isinstance(value, Untyped):
        return _typed(kind, str(value))
    if isinstance(value, float):
        if math.isnan(value):  # missing, in tables
            return None
        if math.isinf(value):  # not representable in JSON; as text its field refuses it
            return str(value)
        return int(value) if kind == "int" and value.is_integer() else value
    return _cell(value)


def _typed(kind: str, text: str) -> Any:
    if text == "":
        return None
    if kind == "bool":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)
    if kind in ("int", "float", "time"):
        with suppress(ValueError):
            return int(text) if kind == "int" else field_value(kind, float(text))
    return text


def _cell(value: Any) -> Any:
    """Convert a table's value to text or a number."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date):
        return f"{value.isoformat()}T00:00:00+00:00"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return float(value) if hasattr(value, "as_tuple") else json.dumps(value, default=str)
