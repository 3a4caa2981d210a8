"""The compacted part of a log: its segments in Parquet, and their records.

A segment whose own file still exists is not included, so that nothing is read twice during compaction.
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
    """The state of the compacted log when constructed; it is not updated."""

    def __init__(self, folder: Path) -> None:
        self.retired = read_retired(folder)
        present = [entry for entry in self.retired.values() if entry.gone_unix_ns is None]
        self.entries = {
            entry.segment: entry for entry in present if not (folder / "segments" / f"{entry.segment:016d}.fbj").exists()
        }
        self._parts: dict[int, list[Path]] = {}
        for path in sorted((folder / "parquet").glob("day=*/decision=*/*.parquet")) if self.retired else []:
            if path.stem.isdigit():
                self._parts.setdefault(int(path.stem), []).append(path)

    def parts(self, segment: int) -> list[Path]:
        """A segment's files; empty if they are missing."""
        return self._parts.get(segment, [])

    def frames(self, entry: Retired) -> list[Frame]:
        """All frames of a segment."""
        found: list[Frame] = parquet_reader().read_frames(self._known(entry))
        return found

    def header(self, entry: Retired) -> bytes:
        """A segment's header."""
        return bytes.fromhex(parquet_reader().read_proof(self._known(entry)[0]).header)

    def find(self, decision_id: str) -> Iterator[tuple[Retired, Frame]]:
        """Frames of a decision and of its annotations, oldest first."""
        # An id starts with its time (UUID version 7): no annotation is older than its decision, give or take a day.
        made_ns = (UUID(decision_id).int >> 80) * 1_000_000 - _DAY_NS
        for entry in self.entries.values():
            if entry.newest_unix_ns >= made_ns:
                for frame in parquet_reader().read_frames(self._known(entry), where=("id", "==", decision_id)):
                    yield entry, frame

    def events(self, entry: Retired, kind: str) -> list[Frame]:
        """Frames of one kind in a segment, for kinds that belong to no decision."""
        reader = parquet_reader()
        parts = [part for part in self._known(entry) if part.parent.name == f"decision={reader.EVENTS}"]
        found: list[Frame] = reader.read_frames(parts, where=("kind", "==", kind))
        return found

    def of(self, seq: int) -> Retired | None:
        """The segment that contains a record."""
        return next((entry for entry in self.entries.values() if entry.first_seq <= seq < entry.next_seq), None)

    def _known(self, entry: Retired) -> list[Path]:
        parts = self.parts(entry.segment)
        if not parts:
            raise EvidenceError(
                f"the Parquet files of segment {entry.segment} are missing",
                next_step="see all findings:  flyball decisions verify",
            )
        return parts


def parquet_reader() -> ModuleType:
    """Import the Parquet reader, only if something was compacted: all else works without pyarrow."""
    with needing("compacted records need pyarrow", extra="journal"):
        from flyball.decision_log.retention import parquet_segment
    return parquet_segment
