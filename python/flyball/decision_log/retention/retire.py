"""Removes what is older than it must be kept. Whole segments only, so that what stays can still be proven.

A segment goes once all of its records are too old, no hold in force names any of them, and no younger decision was served
by what it says. Its root stays on the list of the retired, so that the log verifies without it. Must not know how Parquet
is written.
"""

from __future__ import annotations

import calendar
import contextlib
import datetime
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.decision_log.read.parquet_log import ParquetLog
from flyball.decision_log.retention.compact import alone
from flyball.decision_log.retention.holds import Hold, holds_in_force
from flyball.decision_log.retention.record_index import remove_index
from flyball.decision_log.retention.retired import Retired, write_retired
from flyball.decision_log.retention.served_records import needed_by_younger
from flyball.decision_log.retention.unused_blobs import LeavingBlobs
from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flyball.decision_log.read.whole_log import WholeLog

_KEEP = re.compile(r"(\d{1,5})(d|mo|y)")


@dataclass(frozen=True, slots=True)
class Removed:
    """What a run came to; `held` are segments that stay for a hold, `needed` those that younger decisions were served by."""

    segments: int
    records: int
    held: int
    needed: int
    blobs: int


def oldest_kept(keep: str, now: datetime.datetime) -> datetime.datetime:
    """The time before which records go: `25mo`, `90d` or `7y` before now, in whole days."""
    match = _KEEP.fullmatch(keep)
    if match is None or match[1].strip("0") == "":
        raise UsageError(f"{keep!r} is no time to keep records", next_step="write it as 25mo, 90d or 7y")
    count, day = int(match[1]), now.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        if match[2] == "d":
            return day - datetime.timedelta(days=count)
        months = day.year * 12 + day.month - 1 - count * (12 if match[2] == "y" else 1)
        year, month = divmod(months, 12)
        return day.replace(year=year, month=month + 1, day=min(day.day, calendar.monthrange(year, month + 1)[1]))
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{keep!r} is longer than there are years", next_step="write it as 25mo, 90d or 7y") from error


def retire(log: WholeLog, keep: str, now: datetime.datetime) -> Removed:
    """Removes what is older than `keep` from Parquet. What is in segments yet is younger, or waits for compaction."""
    limit_ns = int(oldest_kept(keep, now).timestamp()) * 1_000_000_000
    with alone(log.folder):
        parquet = ParquetLog(log.folder)
        _finish(log.folder, parquet)
        old = [entry for entry in parquet.entries.values() if entry.newest_unix_ns < limit_ns]
        holds = holds_in_force(log) if old else []
        free = [entry for entry in old if not _held(log, entry, holds)]
        needed = needed_by_younger(log, parquet, {entry.segment for entry in free})
        going = [entry for entry in free if entry.segment not in needed]
        blobs = LeavingBlobs(log, parquet, {entry.segment for entry in going})
        gone_ns = int(now.timestamp() * 1e9)
        # The list first: a reader must never look for files that are gone.
        parquet.retired |= {entry.segment: entry.gone(gone_ns) for entry in going}
        if going:
            write_retired(log.folder, parquet.retired)
        _finish(log.folder, parquet)
        records = sum(entry.frames for entry in going)
        return Removed(len(going), records, len(old) - len(free), len(needed), blobs.remove())


def _finish(folder: Path, parquet: ParquetLog) -> None:
    """Removes the files of what is listed as gone, also after a run that was killed in between."""
    for entry in parquet.retired.values():
        if entry.gone_unix_ns is None:
            continue
        remove_index(folder, entry.segment)
        for part in parquet.parts(entry.segment):
            part.unlink(missing_ok=True)
            for above in (part.parent, part.parent.parent):
                with contextlib.suppress(OSError):  # others' files are still in it
                    above.rmdir()


def _held(log: WholeLog, entry: Retired, holds: list[Hold]) -> bool:
    """Whether a hold names a record of the segment, or is one: a hold lasts no longer than its own record."""
    if any(hold.segment == entry.segment for hold in holds):
        return True
    near = [hold for hold in holds if hold.touches(entry.created_unix_ns, entry.newest_unix_ns)]
    return any(hold.names(record) for record in _records(log, entry.segment) for hold in near) if near else False


def _records(log: WholeLog, segment: int) -> Iterator[dict[str, Any]]:
    _, frames = log.segment_frames(segment)
    return (log.render(frame.payload) for frame in frames)
