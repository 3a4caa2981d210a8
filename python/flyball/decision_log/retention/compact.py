"""Moves sealed segments to Parquet. A segment's file is removed only after its Parquet was read back and verified.

It can be killed at any point and run again. For each segment: write the files under `state/making`, fsync, read back and
verify against the segment's root; move them to `parquet/`, with an index for servers; append the segment to the list of
retired segments, which is the commit point; remove its file. Must not know servers: it runs beside one.
"""

from __future__ import annotations

import fcntl
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.decision_log.proof.checkpoints import first_of
from flyball.decision_log.read.parquet_log import ParquetLog
from flyball.decision_log.retention.record_index import index_of, write_index
from flyball.decision_log.retention.retired import Retired, append_retired, read_retired
from flyball.documents.durable_file import making_folder, open_private, sync_file, sync_folder
from flyball.errors import EvidenceError, LockedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from flyball.decision_log.proof.checkpoints import Checkpoint
    from flyball.decision_log.read.whole_log import WholeLog
    from flyball.native.journal_documents import SegmentFacts


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a run."""

    segments: int
    records: int
    bytes_before: int
    bytes_after: int
    stopped: str | None = None  # why the next segment was not compacted, nor any after it


def compact(log: WholeLog, progress: Callable[[int, int], None] | None = None) -> Compacted:
    """Compact every sealed segment that a signed checkpoint covers; `progress` gets (done, total)."""
    with compaction_lock(log.folder):
        retired = read_retired(log.folder)
        segments, notes = log.segments(), log.checkpoints()
        ready = [(facts, note) for facts in segments if facts.sealed and (note := _covering(notes, facts))]
        chosen, stopped, written = [], None, 0
        for done, (facts, note) in enumerate(ready):
            if progress is not None:
                progress(done, len(ready))
            try:
                if facts.segment in retired:  # an earlier run was killed before it removed the file
                    _prove(log, facts, ParquetLog(log.folder).parts(facts.segment))
                else:
                    entry, parts = _to_parquet(log, facts, note.note)
                    append_retired(log.folder, [entry])
                    written += sum(part.stat().st_size for part in parts)
            except EvidenceError as error:
                stopped = error.message  # the compacted part must be a prefix of the log
                break
            _remove(log, facts)
            chosen.append(facts)
        records, before = sum(facts.frames for facts in chosen), sum(facts.bytes for facts in chosen)
        return Compacted(len(chosen), records, before, written, stopped)


@contextmanager
def compaction_lock(journal: Path) -> Iterator[None]:
    """Lock the journal against concurrent compaction and removal."""
    making_folder(journal / "state")
    with open_private(journal / "state" / "compact.lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LockedError(f"another process is compacting {journal}", next_step="wait until it is done") from error
        yield


def _covering(notes: list[str], facts: SegmentFacts) -> Checkpoint | None:
    """The first checkpoint over the whole segment."""
    return first_of(notes, facts.segment + 1, -1)  # it covers the next segment's header, so this one was sealed


def _to_parquet(log: WholeLog, facts: SegmentFacts, note: str) -> tuple[Retired, list[Path]]:
    from flyball.decision_log.retention.parquet_segment import PartsWriter, SegmentProof, digest_of

    # Only this segment: `verify` reports others, and a missing one must not block compaction.
    found = [finding for finding in log.verify(segment=facts.segment).findings if finding.segment == facts.segment]
    if found:
        raise EvidenceError(f"segment {facts.segment} does not verify: {found[0]}")
    making = log.folder / "state" / "making"
    shutil.rmtree(making, ignore_errors=True)
    proof = SegmentProof(
        facts.segment, facts.first_seq, facts.frames, log.header(facts.segment).hex(), facts.root, facts.last, note
    )
    writer, newest = PartsWriter(making, proof, facts.created_unix_ns), facts.created_unix_ns
    index = []
    for frame in log.live_frames(facts.segment):
        record = log.render(frame.payload)
        newest = max(newest, record.get("at", 0))
        index.append(index_of([{**record, "seq": frame.seq, "segment": frame.segment}]))
        writer.add(record, frame)
    parts = writer.finish()
    for part in parts:
        part.chmod(0o600)
        sync_file(part)
    _prove(log, facts, parts)
    write_index(log.folder, facts.segment, b"".join(index))
    entry = Retired(
        facts.segment, facts.first_seq, facts.frames, facts.root, facts.last, facts.created_unix_ns, newest, digest_of(parts)
    )
    return entry, _into_place(making, parts, log.folder / "parquet")


def _prove(log: WholeLog, facts: SegmentFacts, parts: list[Path]) -> None:
    from flyball.decision_log.retention.parquet_segment import faults_of_segment

    faults = faults_of_segment(log, parts, facts.root)
    if faults:
        raise EvidenceError(f"the Parquet of segment {facts.segment} does not match it: {faults[0]}")


def _into_place(making: Path, parts: list[Path], parquet: Path) -> list[Path]:
    placed = []
    for part in parts:
        goal = parquet / part.relative_to(making)
        making_folder(goal.parent)
        placed.append(part.replace(goal))
        sync_folder(goal.parent)
    shutil.rmtree(making)
    return placed


def _remove(log: WholeLog, facts: SegmentFacts) -> None:
    path = log.folder / "segments" / f"{facts.segment:016d}.fbj"
    path.unlink(missing_ok=True)
    sync_folder(path.parent)
