"""Recorded arrivals, from a log of times or a table column. Must not know load generators."""

from __future__ import annotations

import math
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flyball.errors import ConfigRefusedError, Fault, LineFault
from flyball.rows.rows_file import SUFFIXES, Record, open_rows, open_text, parquet_file, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Kind = Literal["seconds", "clock"]

_COLUMNS = ("time", "timestamp", "offset_s")
_ARRIVALS_MAX = 10_000_000
_FAULTS_MAX = 20
_ALLOWED: dict[str | None, str] = {
    None: "seconds, or an ISO 8601 time such as 2026-11-15T07:31:22.481Z",
    "seconds": "seconds, as before it",
    "clock": "an ISO 8601 time, as before it",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def read_trace(path: str | Path) -> list[float]:
    """Seconds of each arrival after the first, ascending.

    One time per line; or CSV, JSON Lines or Parquet with a column `time`, `timestamp` or `offset_s`. Times are seconds, or
    ISO 8601, in UTC unless they name a zone.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        times_ns = _from_parquet(path)
    elif suffix in SUFFIXES:
        rows = open_rows(path)
        with closing(rows.pick(range(rows.count))) as records:
            times_ns = _read(path, map(_cell, records))
    else:
        times_ns = _read(path, _lines(path))
    if not times_ns:
        raise _refused(f"{path} has no arrivals")
    first = min(times_ns)
    return [(time - first) / 1e9 for time in sorted(times_ns)]


def _read(path: Path, entries: Iterable[tuple[str, object]]) -> list[int]:
    """The times in nanoseconds; reports up to a page of faults at once."""
    times_ns: list[int] = []
    kind = None
    faults: list[Fault] = []
    for at, found in entries:
        try:
            time_ns, is_kind = _nanoseconds(found)
            kind = kind or is_kind
            if is_kind != kind:
                raise ValueError
            times_ns.append(time_ns)
        except (ValueError, OverflowError):
            allowed = _ALLOWED[kind]
            faults.append(LineFault("", str(found), allowed, at, f"is {str(found)!r}; allowed: {allowed}"))
        if len(faults) == _FAULTS_MAX:
            raise _refused(f"{path} has {_FAULTS_MAX} faults or more", faults)
        if len(times_ns) > _ARRIVALS_MAX:
            raise _refused(_too_many(path))
    if faults:
        raise _refused(f"{path} has {len(faults)} fault{'s' * (len(faults) != 1)}", faults)
    return times_ns


def _nanoseconds(found: object) -> tuple[int, Kind]:
    value = _parsed(found) if isinstance(found, str) else found
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // _MICROSECOND * 1000, "clock"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return round(value * 1e9), "seconds"


def _parsed(text: str) -> float | datetime:
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text.strip())


def _lines(path: Path) -> Iterator[tuple[str, object]]:
    with readable(path), open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"{path}:{number}", line.strip()


def _cell(record: Record) -> tuple[str, object]:
    name = next((name for name in _COLUMNS if name in record.cells), None)
    if name is None:
        raise _refused(_no_column(record.at, list(record.cells)))
    return record.at, record.cells[name]


def _from_parquet(path: Path) -> list[int]:
    with readable(path):
        file = parquet_file(path)
        name = next((name for name in _COLUMNS if name in file.schema_arrow.names), None)
        if name is None:
            raise _refused(_no_column(str(path), file.schema_arrow.names))
        if file.metadata.num_rows > _ARRIVALS_MAX:
            raise _refused(_too_many(path))
        column: Any = file.read(columns=[name]).column(0)
    from pyarrow import timestamp, types

    if types.is_timestamp(column.type) and not column.null_count:
        moments: list[int] = column.cast(timestamp("ns", column.type.tz)).cast("int64").to_pylist()
        return moments
    found = (scalar.as_py() for scalar in column)
    return _read(path, ((f"{path}, row {row}", value) for row, value in enumerate(found, start=1)))


def _too_many(path: Path) -> str:
    return f"{path} has more than {_ARRIVALS_MAX:,} arrivals; shorten it"


def _no_column(at: str, names: list[str]) -> str:
    return f"{at} has no column {', '.join(_COLUMNS[:-1])} or {_COLUMNS[-1]}; it has {', '.join(names) or 'none'}"


def _refused(message: str, faults: list[Fault] | None = None) -> ConfigRefusedError:
    return ConfigRefusedError(message, code="trace_refused", faults=faults)
