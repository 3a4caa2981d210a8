"""Whether what was compacted is still what was recorded.

The native reader verifies what still lies in segments, and all checkpoints over the roots on the list of the retired.
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

    from flyball.decision_log.read.whole_log import WholeLog
    from flyball.decision_log.retention.retired import Retired


@dataclass
class ParquetVerified:
    """What was looked at, what is wrong, and until when records were removed on purpose."""

    segments: int = 0
    records: int = 0
    findings: list[Finding] = field(default_factory=list)
    retired_segments: str | None = None  # numbers, as in "1-3, 5"
    retired_until: str | None = None


def verify_parquet(
    folder: Path, segment: int | None = None, told: Callable[[int, int], None] | None = None
) -> ParquetVerified:
    """Everything, or one segment, never stopping at the first fault; `told` hears how many are done, of how many."""
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
        if told is not None:
            told(done, len(entries))
        parts = parquet.parts(entry.segment)
        faults = reader.faults_of_segment(log, parts, entry.root)
        if parts and not faults and reader.digest_of(parts) != entry.files:
            faults.append("its files are not the bytes that were written, though they say the same")
        if parts and not faults and (proof := reader.read_proof(parts[0])).segment != entry.segment:
            faults.append(f"its files are of segment {proof.segment}")
        if parts and not faults and differs(folder, entry.segment, _index(log, entry)):
            faults.append("its index is missing, or is not what its records say")
        verified.findings += [Finding(segment=entry.segment, what=fault) for fault in faults]
        verified.segments += 1
        verified.records += entry.frames
    return verified


def _index(log: WholeLog, entry: Retired) -> bytes:
    _, frames = log.segment_frames(entry.segment)
    return index_of({**log.render(frame.payload), "seq": frame.seq, "segment": frame.segment} for frame in frames)


def ranges(numbers: list[int]) -> str:
    """Numbers in order, as people write them: 1-3, 5."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{first}-{last}" if first < last else str(first) for first, last in found)
