"""Removes long inputs beside the log that no record names any more, while a writer may be about to name them again.

The writer touches a file that it uses again, and then looks whether it is still there. So a file is moved aside first: if
it is still old then, nobody uses it; else it goes back. Must not know why records go.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

from flyball.documents.durable_file import making_folder, read_json, sync_folder, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flyball.decision_log.read.parquet_log import ParquetLog
    from flyball.decision_log.read.whole_log import WholeLog

# A file is used before its record can be read; no record waits longer for that.
_YOUNG_S = 3600
_MOST = 4096


class LeavingBlobs:
    """Those that only records of segments that go name. The names are on the disk before the records are gone."""

    def __init__(self, log: WholeLog, parquet: ParquetLog, going: set[int]) -> None:
        self._folder, self._grave = log.folder / "blobs", log.folder / "state" / "grave"
        self._list = log.folder / "state" / "leaving.json"
        self._young = time.time() - _YOUNG_S
        for left in self._grave.glob("*"):  # by a run that was killed
            left.replace(self._folder / left.name)
        leaving = set(read_json(self._list) or ())
        leaving |= {name for segment in going for name in _names(_compacted(log, segment))}
        if leaving:
            for segment in parquet.entries.keys() - going:
                leaving -= set(_names(_compacted(log, segment)))
            leaving -= set(_names(_live(log)))
        self._leaving = sorted(leaving)
        if leaving or self._list.exists():
            write_json(self._list, self._leaving)

    def remove(self) -> int:
        """How many there were that nobody has used of late."""
        removed = 0
        making_folder(self._grave)
        for name in self._leaving:
            place, aside = self._folder / name, self._grave / name
            if not place.exists():
                continue
            place.replace(aside)
            if aside.stat().st_mtime >= self._young:
                aside.replace(place)
                continue
            aside.unlink()
            removed += 1
        if self._leaving:
            sync_folder(self._folder)
        self._list.unlink(missing_ok=True)
        return removed


def _compacted(log: WholeLog, segment: int) -> Iterator[dict[str, Any]]:
    _, frames = log.segment_frames(segment)
    return (log.render(frame.payload) for frame in frames)


def _live(log: WholeLog) -> Iterator[dict[str, Any]]:
    """What still lies in segments, also what is not durable yet."""
    segments = log.segments()
    at, end = segments[0].first_seq if segments else 0, not segments
    while not end:
        lines, at, end = log.chunk(at, _MOST, {})
        yield from map(json.loads, lines.splitlines())


def _names(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    for record in records:
        named = record.get("input_blob")
        match = re.search(r"[0-9a-f]{64}", json.dumps(named)) if named else None
        if match:
            yield f"sha256-{match[0]}"
