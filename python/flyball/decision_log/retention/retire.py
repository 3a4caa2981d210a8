"""Removes expired records, in whole segments only, so that the rest can still be proven.

A segment is removed once all its records are expired, no hold covers any of them, and no younger decision needs its
`served` records. Its root stays in the list of retired segments, so that the log still verifies. Must not know how
Parquet is written.
"""

from __future__ import annotations

import calendar
import contextlib
import datetime
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.decision_log.read.parquet_log import ParquetLog
from flyball.decision_log.retention.compact import compaction_lock
from flyball.decision_log.retention.holds import Hold, holds_in_force
from flyball.decision_log.retention.record_index import remove_index
from flyball.decision_log.retention.retired import Retired, write_retired
from flyball.decision_log.retention.served_records import needed_by_younger
from flyball.decision_log.retention.unused_blobs import UnusedBlobs
from flyball.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.decision_log.read.whole_log import WholeLog

_KEEP = re.compile(r"(\d{1,5})(d|mo|y)")


@dataclass(frozen=True, slots=True)
class Removed:
    """The result of a run; `held` segments stay for a hold, `needed` ones for younger decisions."""

    segments: int
    records: int
    held: int
    needed: int
    blobs: int


def oldest_kept(keep: str, now: datetime.datetime) -> datetime.datetime:
    """The time before which records expire: `25mo`, `90d` or `7y` ago, in whole days."""
    match = _KEEP.fullmatch(keep)
    if match is None or match[1].strip("0") == "":
        raise UsageError(f"--keep: {keep!r} is not a duration", next_step="write it as 25mo, 90d or 7y")
    count, day = int(match[1]), now.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        if match[2] == "d":
            return day - datetime.timedelta(days=count)
        months = day.year * 12 + day.month - 1 - count * (12 if match[2] == "y" else 1)
        year, month = divmod(months, 12)
        return day.replace(year=year, month=month + 1, day=min(day.day, calendar.monthrange(year, month + 1)[1]))
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--keep: {keep!r} is too long", next_step="write it as 25mo, 90d or 7y") from error


def retire(log: WholeLog, keep: str, now: datetime.datetime) -> Removed:
    """Remove compacted records older than `keep`. Segments are younger, or wait for compaction."""
    limit_ns = int(oldest_kept(keep, now).timestamp()) * 1_000_000_000
    with compaction_lock(log.folder):
        parquet = ParquetLog(log.folder)
        _finish(log.folder, parquet)
        old = [entry for entry in parquet.entries.values() if entry.newest_unix_ns < limit_ns]
        holds = holds_in_force(log) if old else []
        free = [entry for entry in old if not _held(log, entry, holds)]
        needed = needed_by_younger(log, parquet, {entry.segment for entry in free})
        expired = [entry for entry in free if entry.segment not in needed]
        blobs = UnusedBlobs(log, parquet, {entry.segment for entry in expired})
        gone_ns = int(now.timestamp() * 1e9)
        # The list first: a reader must never look for removed files.
        parquet.retired |= {entry.segment: entry.gone(gone_ns) for entry in expired}
        if expired:
            write_retired(log.folder, parquet.retired)
        _finish(log.folder, parquet)
        records = sum(entry.frames for entry in expired)
        return Removed(len(expired), records, len(old) - len(free), len(needed), blobs.remove())


def _finish(folder: Path, parquet: ParquetLog) -> None:
    """Remove the files of segments listed as gone, also after a killed run."""
    for entry in parquet.retired.values():
        if entry.gone_unix_ns is None:
            continue
        remove_index(folder, entry.segment)
        for part in parquet.parts(entry.segment):
            part.unlink(missing_ok=True)
            for above in (part.parent, part.parent.parent):
                with contextlib.suppress(OSError):  # it still has other files
                    above.rmdir()


def _held(log: WholeLog, entry: Retired, holds: list[Hold]) -> bool:
    """Whether a hold covers a record of the segment, or is one: its own record must stay, too."""
    if any(hold.segment == entry.segment for hold in holds):
        return True
    near = [hold for hold in holds if hold.touches(entry.created_unix_ns, entry.newest_unix_ns)]
    return bool(near) and any(hold.names(record) for record in log.segment_records(entry.segment) for hold in near)
