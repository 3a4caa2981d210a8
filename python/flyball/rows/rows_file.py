"""Files of rows: Parquet, CSV with a header, or JSON Lines. They are counted first, and only wanted rows are kept.

Must not know models: a row is its cells by name.
"""

from __future__ import annotations

import csv
import json
from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from flyball.errors import RefusedError, needing

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

SUFFIXES = (".parquet", ".csv", ".jsonl")


class Untyped(str):
    """A cell of CSV: text that may stand for a number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One row: where it stands, for messages, and its cells in the file's order."""

    at: str
    cells: dict[str, Any]


class RowsFile(Protocol):
    """A file whose rows are numbered from 0."""

    @property
    def count(self) -> int:
        """How many rows there are."""

    def pick(self, places: Sequence[int]) -> Generator[Record, None, None]:
        """The rows at these places, which ascend. Close it where it is not read to its end: a file is open behind it."""


def open_rows(path: Path) -> RowsFile:
    """A file by its suffix."""
    kinds: dict[str, type[_Csv | _JsonLines | _Parquet]] = {".parquet": _Parquet, ".csv": _Csv, ".jsonl": _JsonLines}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise RefusedError(f"{path} is no file of rows by its name", next_step=f"rows come from {', '.join(SUFFIXES)}")
    with readable(path):
        return kind(path)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Whatever a file does not let one read, told by its name."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise RefusedError(f"{path} is not text in UTF-8: {error.reason}") from error
    except OSError as error:
        raise RefusedError(f"cannot read {path}: {error.strerror or error}") from error


def open_text(path: Path) -> TextIO:
    """A text file; a byte order mark, as spreadsheets write it, is no part of the first name."""
    return path.open(encoding="utf-8-sig", newline="")


def parquet_file(path: Path) -> Any:
    """A Parquet file, opened by pyarrow."""
    with needing("reading Parquet needs pyarrow", extra="rows"):
        import pyarrow
        from pyarrow import parquet
    try:
        return parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise RefusedError(f"{path} is no Parquet file: {error}") from error


class _Csv:
    """The first line names the columns; lines without any cell are none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = sum(1 for _ in self._rows())

    def pick(self, places: Sequence[int]) -> Generator[Record, None, None]:
        wanted = iter(places)
        place = next(wanted, None)
        for row, record in enumerate(self._rows()):
            if row == place:
                yield record
                place = next(wanted, None)

    def _rows(self) -> Iterator[Record]:
        with readable(self._path), open_text(self._path) as file:
            lines = csv.reader(file, strict=True)
            try:
                head = next((cells for cells in lines if cells), [])
                names = [name.strip() for name in head]
                twice = next((name for name in names if names.count(name) > 1), None)
                if twice is not None:
                    raise RefusedError(f"{self._path}: the column {twice!r} stands twice in the header")
                for cells in lines:
                    if not cells:
                        continue
                    at = f"{self._path}:{lines.line_num}"
                    if len(cells) != len(names):
                        raise RefusedError(f"{at} has {len(cells)} cells, and the header {len(names)}")
                    yield Record(at, dict(zip(names, map(Untyped, cells), strict=True)))
            except csv.Error as error:
                raise RefusedError(f"{self._path}:{lines.line_num} is no CSV: {error}") from error


class _JsonLines:
    """One object a line; empty lines are none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = sum(1 for _ in self._lines())

    def pick(self, places: Sequence[int]) -> Generator[Record, None, None]:
        wanted = iter(places)
        place = next(wanted, None)
        for row, (number, text) in enumerate(self._lines()):
            if row == place:
                yield self._record(f"{self._path}:{number}", text)
                place = next(wanted, None)

    def _lines(self) -> Iterator[tuple[int, str]]:
        with readable(self._path), open_text(self._path) as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield number, text

    def _record(self, at: str, text: str) -> Record:
        try:
            cells = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RefusedError(f"{at} is no JSON: {error}") from error
        if not isinstance(cells, dict):
            raise RefusedError(f'{at} is no object; write {{"name": value, …}} in each line')
        return Record(at, cells)


class _Parquet:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = parquet_file(path)
        self.count: int = self._file.metadata.num_rows

    def pick(self, places: Sequence[int]) -> Generator[Record, None, None]:
        start, taken = 0, 0
        for batch in self._file.iter_batches(batch_size=4096):
            end = start + batch.num_rows
            until = bisect_left(places, end, taken)
            here = places[taken:until]
            for place, cells in zip(here, self._plain(batch, [place - start for place in here]), strict=True):
                yield Record(f"{self._path}, row {place + 1}", cells)
            start, taken = end, until

    def _plain(self, batch: Any, places: list[int]) -> list[dict[str, Any]]:
        try:
            rows: list[dict[str, Any]] = batch.take(places).to_pylist() if places else []
        except ValueError as error:  # times in nanoseconds, which Python's own do not have
            raise RefusedError(f"{self._path} has a column that payloads cannot carry: {error}") from error
        return rows
