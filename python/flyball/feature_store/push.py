"""Fills a feature set from a file, one record per row. Must not know the command line."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from flyball.errors import RefusedError
from flyball.native import features
from flyball.rows.rows_file import Record, RowsFile, Untyped, open_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from flyball.feature_store.target import Target

    Cell = bool | int | float | str | None

_BATCH_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of a push."""

    rows: int
    bytes: int


def push(
    path: Path,
    target: Target,
    set_name: str,
    key: str,
    *,
    columns: list[str] | None = None,
    expire_s: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Pushed:
    """Store every row of the file as a record under its key. The new set replaces the old one atomically.

    `columns` are the record's fields; by default all but the key. `progress` receives the rows done and their total.
    """
    rows = open_rows(path)
    if not rows.count:
        raise RefusedError(f"{path} has no rows; nothing was changed")
    fields = _fields(path, rows, key, columns)
    convert = _converters(rows, fields)
    options = {**target.options(set_name), "expire_s": expire_s}
    records = (_record(row, key, fields, convert) for row in _all(rows))
    return Pushed(**features.push_features(options, _batches(records, rows.count, progress)))


def _batches(
    records: Iterator[tuple[str, dict[str, Cell]]], total: int, progress: Callable[[int, int], None] | None
) -> Iterator[bytes]:
    done = 0
    while batch := list(islice(records, _BATCH_ROWS)):
        yield json.dumps(batch, ensure_ascii=False, allow_nan=False).encode()
        done += len(batch)  # the consumer requests the next batch after writing this one
        if progress is not None:
            progress(done, total)


def _all(rows: RowsFile) -> Iterator[Record]:
    return rows.pick(range(rows.count))


def _fields(path: Path, rows: RowsFile, key: str, columns: list[str] | None) -> list[str]:
    first = rows.pick([0])
    names = list(next(first).cells)
    first.close()
    for name in (key, *(columns or [])):
        if name not in names:
            raise RefusedError(f"{path} has no column {name!r}", next_step=f"its columns are {', '.join(names)}")
    fields = columns if columns is not None else [name for name in names if name != key]
    if not fields:
        raise RefusedError(f"{path} has only the key column; a record needs at least one field")
    return fields


def _converters(rows: RowsFile, fields: list[str]) -> dict[str, Callable[[str], Cell]]:
    """Converters for CSV cells: a column is numeric only if all of it is, so that codes like 0123 stay text."""
    kinds: dict[str, list[Callable[[str], Cell]]] = {name: [_whole, _number, _truth] for name in fields}
    for row in _all(rows):
        for name in fields:
            cell = row.cells.get(name)
            if isinstance(cell, Untyped) and cell:
                kinds[name] = [kind for kind in kinds[name] if kind(cell) is not None]
    return {name: kind[0] if kind else str for name, kind in kinds.items()}


def _whole(text: str) -> int | None:
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")
    return int(text) if plain and len(digits) < 19 else None


def _number(text: str) -> float | None:
    digits = text.removeprefix("-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _record(
    row: Record, key: str, fields: list[str], convert: dict[str, Callable[[str], Cell]]
) -> tuple[str, dict[str, Cell]]:
    name = row.cells.get(key)
    if isinstance(name, bool) or not isinstance(name, (str, int)) or name == "":
        raise RefusedError(f"{row.at}: the key {key!r} is {name!r}; it must be a text or an integer")
    record: dict[str, Cell] = {}
    for field in fields:
        cell = row.cells.get(field)
        # Missing values are omitted: a record has no nulls.
        value = _plain(cell, row.at, field)
        if isinstance(value, Untyped):
            value = convert[field](value) if value else None
        if value is not None:
            record[field] = value
    return str(name), record


def _plain(cell: Any, at: str, field: str) -> Cell:
    match cell:
        case float() if math.isnan(cell):
            return None
        case float() if math.isinf(cell):
            raise RefusedError(f"{at}: {field} is infinite; leave unknown values empty")
        case None | bool() | int() | float() | str():
            return cell
        case decimal.Decimal():
            return float(cell)
        case datetime.datetime():
            return (cell if cell.tzinfo else cell.replace(tzinfo=datetime.UTC)).isoformat()
        case datetime.date():
            return cell.isoformat()
    raise RefusedError(f"{at}: {field} is a {type(cell).__name__}; records hold numbers, texts and bools")
