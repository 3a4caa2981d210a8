"""Removes blobs (long inputs) that no record references, while a writer may reuse them.

The writer touches a file that it reuses, then checks that it still exists. So a file is moved aside first: if its time is
still old then, it is unused; else it is moved back. Must not know why records are removed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from flyball.documents.durable_file import making_folder, read_json, sync_folder, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flyball.decision_log.read.parquet_log import ParquetLog
    from flyball.decision_log.read.whole_log import WholeLog

# A blob is written before its record becomes readable; no record takes longer for that.
_YOUNG_S = 3600


class UnusedBlobs:
    """Blobs referenced only by expired segments. Their names are on disk before the records are removed."""

    def __init__(self, log: WholeLog, parquet: ParquetLog, expired: set[int]) -> None:
        self._folder, self._trash = log.folder / "blobs", log.folder / "state" / "trash"
        self._list = log.folder / "state" / "unused_blobs.json"
        self._young = time.time() - _YOUNG_S
        for left in self._trash.glob("*"):  # from a killed run
            left.replace(self._folder / left.name)
        unused = set(read_json(self._list) or ())
        unused |= {name for segment in expired for name in _names(log.segment_records(segment))}
        if unused:
            for segment in parquet.entries.keys() - expired:
                unused -= set(_names(log.segment_records(segment)))
            unused -= set(_names(log.live_records()))
        self._unused = sorted(unused)
        if unused or self._list.exists():
            write_json(self._list, self._unused)

    def remove(self) -> int:
        """Remove the blobs not used recently; return their number."""
        removed = 0
        making_folder(self._trash)
        for name in self._unused:
            blob, aside = self._folder / name, self._trash / name
            if not blob.exists():
                continue
            blob.replace(aside)
            if aside.stat().st_mtime >= self._young:
                aside.replace(blob)
                continue
            aside.unlink()
            removed += 1
        if self._unused:
            sync_folder(self._folder)
        self._list.unlink(missing_ok=True)
        return removed


def _names(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (record["input_blob"][0].replace(":", "-") for record in records if record.get("input_blob"))
