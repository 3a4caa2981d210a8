"""Verifies compacted records.

The native reader verifies segments, and all checkpoints over the roots in the list of retired segments.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flyball.decision_log.read.parquet_log import ParquetLog, parquet_reader
from flyball.decision_log.retention.record_index import differs, index_of
from flyball.native.journal_documents import Finding

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass
class ParquetVerified:
    """What was verified, the findings, and until when records were removed by retention."""

    segments: int = 0
    records: int = 0
    findings: list[Finding] = field(default_factory=list)
    retired_segments: str | None = None  # numbers, as in "1-3, 5"
    retired_until: str | None = None


def verify_parquet(
    folder: Path, segment: int | None = None, progress: Callable[[int, int], None] | None = None
) -> ParquetVerified:
    """Verify all segments, or one, and collect all findings; `progress` gets (done, total)."""
    from flyball.decision_log.read.whole_log import WholeLog

    log, parquet, verified = WholeLog(folder), ParquetLog(folder), ParquetVerified()
    gone = [entry for entry in parquet.retired.values() if entry.gone_unix_ns is not None]
    if gone:
        newest_ns = max(entry.newest_unix_ns for entry in gone)
        until = datetime.datetime.fromtimestamp(newest_ns // 1_000_000_000, datetime.UTC)
        verified.retired_segments = ranges([entry.segment for entry in gone])
        verified.retired_until = until.date().isoformat()
    entries = [entry for entry in parquet.entries.values() if segment in (None, entry.segment)]
    if not entries:
        return verified
    reader = parquet_reader()
    for done, entry in enumerate(entries):
        if progress is not None:
            progress(done, len(entries))
        parts = parquet.parts(entry.segment)
        faults = reader.faults_of_segment(log, parts, entry.root)
        if parts and not faults and reader.digest_of(parts) != entry.files:
            faults.append("its files were rewritten, with the same content")
        if parts and not faults and (proof := reader.read_proof(parts[0])).segment != entry.segment:
            faults.append(f"its files belong to segment {proof.segment}")
        if parts and not faults and differs(folder, entry.segment, index_of(log.segment_records(entry.segment))):
            faults.append("its index is missing or does not match its records")
        verified.findings += [Finding(segment=entry.segment, what=fault) for fault in faults]
        verified.segments += 1
        verified.records += entry.frames
    return verified


def ranges(numbers: list[int]) -> str:
    """Sorted numbers as ranges: 1-3, 5."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{first}-{last}" if first < last else str(first) for first, last in found)
