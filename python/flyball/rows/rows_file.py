"""Files of rows: Parquet, CSV with a header, or JSON Lines. Counted first; only selected rows are kept.

Must not know models: a row is its cells by name.
"""

from __future__ import annotations

import csv
import json
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeVar

from flyball.errors import RefusedError, needing

SUFFIXES = (".parquet", ".csv", ".jsonl")
_Row = TypeVar("_Row")


class Untyped(str):
    """A CSV cell: text that may be a number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One row: its location, for messages, and its cells in the file's order."""

    at: str
    cells: dict[str, Any]


class RowsFile(Protocol):
    """A file whose rows are numbered from 0."""

    @property
    def count(self) -> int:
        """The number of rows."""

    def pick(self, numbers: Sequence[int]) -> Generator[Record, None, None]:
        """The rows with these ascending numbers. Close it unless read to the end: it holds a file open."""


def open_rows(path: Path) -> RowsFile:
    """Open a file by its suffix."""
    kinds: dict[str, type[_Csv | _JsonLines | _Parquet]] = {".parquet": _Parquet, ".csv": _Csv, ".jsonl": _JsonLines}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise RefusedError(f"{path} is not a supported file of rows", next_step=f"supported: {', '.join(SUFFIXES)}")
    with readable(path):
        return kind(path)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn read errors into errors that name the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise RefusedError(f"{path} is not text in UTF-8: {error.reason}") from error
    except OSError as error:
        raise RefusedError(f"cannot read {path}: {error.strerror or error}") from error


def open_text(path: Path) -> TextIO:
    """A text file; a byte order mark, as spreadsheets write it, is skipped."""
    return path.open(encoding="utf-8-sig", newline="")


def parquet_file(path: Path) -> Any:
    """A Parquet file, opened by pyarrow."""
    with needing("reading Parquet needs pyarrow", extra="rows"):
        import pyarrow
        from pyarrow import parquet
    try:
        return parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise RefusedError(f"{path} is not a Parquet file: {error}") from error


def _picked(rows: Iterator[_Row], numbers: Sequence[int]) -> Iterator[_Row]:
    """The rows with these ascending numbers."""
    wanted = iter(numbers)
    next_number = next(wanted, None)
    for number, row in enumerate(rows):
        if number == next_number:
            yield row
            next_number = next(wanted, None)


class _Csv:
    """The first line names the columns; empty lines are skipped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = sum(1 for _ in self._rows())

    def pick(self, numbers: Sequence[int]) -> Generator[Record, None, None]:
        yield from _picked(self._rows(), numbers)

    def _rows(self) -> Iterator[Record]:
        with readable(self._path), open_text(self._path) as file:
            lines = csv.reader(file, strict=True)
            try:
                head = next((cells for cells in lines if cells), [])
                names = [name.strip() for name in head]
                twice = next((name for name in names if names.count(name) > 1), None)
                if twice is not None:
                    raise RefusedError(f"{self._path}: duplicate column {twice!r} in the header")
                for cells in lines:
                    if not cells:
                        continue
                    at = f"{self._path}:{lines.line_num}"
                    if len(cells) != len(names):
                        raise RefusedError(f"{at} has {len(cells)} cells, but the header has {len(names)}")
                    yield Record(at, dict(zip(names, map(Untyped, cells), strict=True)))
            except csv.Error as error:
                raise RefusedError(f"{self._path}:{lines.line_num} is not CSV: {error}") from error


class _JsonLines:
    """One object per line; empty lines are skipped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = sum(1 for _ in self._lines())

    def pick(self, numbers: Sequence[int]) -> Generator[Record, None, None]:
        for number, text in _picked(self._lines(), numbers):
            yield self._record(f"{self._path}:{number}", text)

    def _lines(self) -> Iterator[tuple[int, str]]:
        with readable(self._path), open_text(self._path) as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield number, text

    def _record(self, at: str, text: str) -> Record:
        try:
            cells = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RefusedError(f"{at} is not JSON: {error}") from error
        if not isinstance(cells, dict):
            raise RefusedError(f'{at} is not an object; write {{"name": value, …}} in each line')
        return Record(at, cells)


class _Parquet:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = parquet_file(path)
        self.count: int = self._file.metadata.num_rows

    def pick(self, numbers: Sequence[int]) -> Generator[Record, None, None]:
        start, done = 0, 0
        for batch in self._file.iter_batches(batch_size=4096):
            end = start + batch.num_rows
            until = bisect_left(numbers, end, done)
            here = numbers[done:until]
            for number, cells in zip(here, self._plain(batch, [number - start for number in here]), strict=True):
                yield Record(f"{self._path}, row {number + 1}", cells)
            start, done = end, until

    def _plain(self, batch: Any, numbers: list[int]) -> list[dict[str, Any]]:
        try:
            rows: list[dict[str, Any]] = batch.take(numbers).to_pylist() if numbers else []
        except ValueError as error:  # times in nanoseconds, which Python's do not have
            raise RefusedError(f"{self._path} has a column of an unsupported type: {error}") from error
        return rows
