"""The part of a log that was compacted: which segments lie in Parquet, and their records.

A segment whose own file is still there is not among them, so that nothing is seen twice while compaction is at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from flyball.decision_log.retention.retired import Retired, read_retired
from flyball.errors import EvidenceError, needing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from flyball.native.journal import Frame

_DAY_NS = 86_400_000_000_000


class ParquetLog:
    """What there was when it was made: it does not follow the log."""

    def __init__(self, folder: Path) -> None:
        self.retired = read_retired(folder)
        there = [entry for entry in self.retired.values() if entry.gone_unix_ns is None]
        self.entries = {
            entry.segment: entry for entry in there if not (folder / "segments" / f"{entry.segment:016d}.fbj").exists()
        }
        self._parts: dict[int, list[Path]] = {}
        for path in sorted((folder / "parquet").glob("day=*/decision=*/*.parquet")) if self.retired else []:
            if path.stem.isdigit():
                self._parts.setdefault(int(path.stem), []).append(path)

    def parts(self, segment: int) -> list[Path]:
        """A segment's files; none: they are missing."""
        return self._parts.get(segment, [])

    def frames(self, entry: Retired) -> list[Frame]:
        """All frames of a segment."""
        found: list[Frame] = parquet_reader().read_frames(self._known(entry))
        return found

    def header(self, entry: Retired) -> bytes:
        """The bytes that a segment began with."""
        return bytes.fromhex(parquet_reader().read_proof(self._known(entry)[0]).header)

    def find(self, decision_id: str) -> Iterator[tuple[Retired, Frame]]:
        """Frames of a decision, or about it, oldest first."""
        # An id begins with its time (UUID version 7): nothing about a decision is older than itself, give or take a day.
        made_ns = (UUID(decision_id).int >> 80) * 1_000_000 - _DAY_NS
        for entry in self.entries.values():
            if entry.newest_unix_ns >= made_ns:
                for frame in parquet_reader().read_frames(self._known(entry), where=("id", "==", decision_id)):
                    yield entry, frame

    def events(self, entry: Retired, kind: str) -> list[Frame]:
        """Frames of one kind in a segment, of a kind that belongs to no decision."""
        reader = parquet_reader()
        parts = [part for part in self._known(entry) if part.parent.name == f"decision={reader.EVENTS}"]
        found: list[Frame] = reader.read_frames(parts, where=("kind", "==", kind))
        return found

    def of(self, seq: int) -> Retired | None:
        """The segment that a record is in."""
        return next((entry for entry in self.entries.values() if entry.first_seq <= seq < entry.next_seq), None)

    def _known(self, entry: Retired) -> list[Path]:
        parts = self.parts(entry.segment)
        if not parts:
            raise EvidenceError(
                f"segment {entry.segment} was compacted, and its files are missing",
                next_step="see what else is:  flyball decisions verify",
            )
        return parts


def parquet_reader() -> ModuleType:
    """What opens Parquet; asked for only where something was compacted, so that all else works without pyarrow."""
    with needing("compacted records need pyarrow", extra="journal"):
        from flyball.decision_log.retention import parquet_segment
    return parquet_segment
