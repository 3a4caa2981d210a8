"""Fills the windows of a decision from past events, with the serving engine.

Must not know where events come from: files of rows and journals both give `PastEvent`s.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyball.decision.compile.document import Compiled, bare_document
from flyball.errors import InvalidInputError, RefusedError, UsageError
from flyball.native import features
from flyball.rows.rows_file import Untyped, open_rows

EVENTS_MAX = 5_000_000
"""Maximum events per run: they are sorted by time in memory."""
_BATCH = 1000
_REDIS_TIMEOUT_MS = 10_000  # latency does not matter here
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TIME_ALLOWED = "a time as RFC 3339, or seconds since 1970"


@dataclass(frozen=True, slots=True)
class PastEvent:
    """One event: its time, and the fields that windows read."""

    at_ms: int
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Backfilled:
    """The result of a backfill."""

    windows: list[str]
    events: int
    without_key: int
    first_ms: int
    last_ms: int


class WindowsToFill:
    """The windows of a compiled decision, and the fields they read."""

    def __init__(self, compiled: Compiled) -> None:
        document = compiled.document
        self.decision = compiled.name
        self.features = [feature for feature in document["features"] if feature.get("window") is not None]
        if not self.features:
            raise UsageError(f"{compiled.name} has no window to fill", next_step="show its features:  flyball plan SPEC")
        read = {feature["window"].get(key) for feature in self.features for key in ("by", "of")}
        self.fields = [{**field, "required": False} for field in document["input"] if field["name"] in read]
        self.event_time: str | None = document["event_time"]
        self.embedded = [feature["name"] for feature in self.features if feature["window"].get("source") is None]
        self._document, self._sources = document, document["sources"]

    def fill(
        self,
        events: Sequence[PastEvent],
        folder: Path | None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Backfilled:
        """Count the events in time order; `folder` is the server's features_folder, for embedded windows."""
        if self.embedded and folder is None:
            raise UsageError(
                f"{', '.join(self.embedded)}: stored in the server's features_folder",
                next_step="stop the server, and give it:  --features-folder DIR",
            )
        if not events:
            raise RefusedError("no events to count; nothing was changed")
        ordered = sorted(events, key=lambda event: event.at_ms)
        options = {
            "decision": self.decision, "document": self._minimal(), "folder": None if folder is None else str(folder)
        }  # fmt: skip
        try:
            filled = features.backfill_windows(options, _batches(ordered, progress))
        except RefusedError as error:
            error.next_step = error.next_step or _next_step(error.message, folder)
            raise
        names = [str(feature["name"]) for feature in self.features]
        return Backfilled(names, filled["events"], filled["without_key"], ordered[0].at_ms, ordered[-1].at_ms)

    def _minimal(self) -> dict[str, Any]:
        """The decision reduced to what windows need."""
        used = {feature["window"].get("source") for feature in self.features}
        sources = {
            name: {**source, "timeout_ms": _REDIS_TIMEOUT_MS} for name, source in self._sources.items() if name in used
        }
        owner, purpose = self._document["owner"], self._document["purpose"]
        return bare_document(owner, purpose, input=self.fields, features=self.features, sources=sources)


def events_of_rows(windows: WindowsToFill, path: Path, time: str | None) -> list[PastEvent]:
    """The events in a file of rows; `time` is the time column."""
    column = time or windows.event_time
    if column is None:
        raise UsageError(f"{windows.decision} has no event_time", next_step="give the time column:  --time-column COLUMN")
    rows = open_rows(path)
    if rows.count > EVENTS_MAX:
        raise RefusedError(
            f"{path} has {rows.count:,} rows; allowed: {EVENTS_MAX:,}",
            next_step="remove events older than the longest window",
        )
    types = {field["name"]: field["type"] for field in windows.fields}
    return [_event(record.at, record.cells, column, types) for record in rows.pick(range(rows.count))]


def milliseconds(value: object, at: str) -> int:
    """Parse a time as in requests, into milliseconds since 1970."""
    match value:
        case bool():
            pass
        case int() | float():
            return round(value * 1000)
        case datetime.datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return (moment - _EPOCH) // datetime.timedelta(milliseconds=1)
        case str():
            try:
                return milliseconds(datetime.datetime.fromisoformat(value), at)
            except ValueError:
                try:
                    return milliseconds(float(value), at)
                except ValueError:
                    pass
    raise InvalidInputError(f"{at}: the time is {value!r}; allowed: {_TIME_ALLOWED}")


def _event(at: str, cells: Mapping[str, Any], column: str, types: Mapping[str, str]) -> PastEvent:
    for name in (column, *types):
        if name not in cells:
            raise InvalidInputError(f"{at}: no column {name!r}", next_step=f"columns: {', '.join(cells)}")
    fields = {name: _plain(cells[name], kind, at, name) for name, kind in types.items()}
    return PastEvent(milliseconds(cells[column], at), {name: value for name, value in fields.items() if value is not None})


def _plain(cell: Any, kind: str, at: str, name: str) -> Any:
    """A cell as the value of a request's field; CSV cells are text."""
    if isinstance(cell, datetime.datetime):
        return cell.isoformat() if cell.tzinfo else f"{cell.isoformat()}Z"
    if not isinstance(cell, Untyped):
        return None if isinstance(cell, float) and cell != cell else cell  # noqa: PLR0124 - NaN is not itself
    if cell == "":
        return None
    try:
        if kind == "bool":
            return {"true": True, "false": False}[cell.lower()]
        return int(cell) if kind == "int" else float(cell) if kind == "float" else str(cell)
    except (ValueError, KeyError) as error:
        raise InvalidInputError(f"{at}: {name} is {str(cell)!r}; allowed: {kind}") from error


def _batches(events: Sequence[PastEvent], progress: Callable[[int, int], None] | None) -> Iterator[bytes]:
    for start in range(0, len(events), _BATCH):
        batch = events[start : start + _BATCH]
        yield json.dumps([[event.at_ms, event.fields] for event in batch], ensure_ascii=False, allow_nan=False).encode()
        if progress is not None:  # the consumer asks for the next batch after it counted this one
            progress(start + len(batch), len(events))


def _next_step(message: str, folder: Path | None) -> str | None:
    if "counted twice" in message:
        restart = f", or start over:  remove {folder / 'windows.redb'}" if folder is not None else ""
        return f"give only later events{restart}"
    return "stop the server that uses the folder" if "windows.redb" in message else None


def counted(events: Iterable[PastEvent]) -> list[PastEvent]:
    """Collect the events; raises if there are too many to sort in memory."""
    found: list[PastEvent] = []
    for event in events:
        if len(found) >= EVENTS_MAX:
            raise RefusedError(f"more than {EVENTS_MAX:,} events", next_step="shorten the period:  --since, --until")
        found.append(event)
    return found
