"""Moves sealed segments into Parquet. A segment's own file is removed only when its Parquet was read back and proven.

It can be killed at any point and run again. For one segment: the files are written under `state/making`, synced, read
back and proven against the segment's root; moved to `parquet/`, with an index for servers; the segment is put on the list
of the retired, which is the moment that counts; its file is removed. Must not know servers: it runs beside one.
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
    """What a run came to."""

    segments: int
    records: int
    bytes_before: int
    bytes_after: int
    stopped: str | None = None  # why the next segment stays as it is, and all after it


def compact(log: WholeLog, told: Callable[[int, int], None] | None = None) -> Compacted:
    """Every sealed segment that a signed checkpoint covers. `told` hears how many are done, of how many."""
    with alone(log.folder):
        retired = read_retired(log.folder)
        segments, notes = log.segments(), log.checkpoints()
        ready = [(facts, note) for facts in segments if facts.sealed and (note := _covering(notes, facts))]
        chosen, stopped, written = [], None, 0
        for done, (facts, note) in enumerate(ready):
            if told is not None:
                told(done, len(ready))
            try:
                if facts.segment in retired:  # a run was killed before it could remove the file
                    _prove(log, facts, ParquetLog(log.folder).parts(facts.segment))
                else:
                    entry, parts = _to_parquet(log, facts, note.note)
                    append_retired(log.folder, [entry])
                    written += sum(part.stat().st_size for part in parts)
            except EvidenceError as error:
                stopped = error.message  # what is compacted is the beginning of the log, without holes
                break
            _remove(log, facts)
            chosen.append(facts)
        records, before = sum(facts.frames for facts in chosen), sum(facts.bytes for facts in chosen)
        return Compacted(len(chosen), records, before, written, stopped)


@contextmanager
def alone(journal: Path) -> Iterator[None]:
    """Nobody else compacts this journal, or removes its records, at the same time."""
    making_folder(journal / "state")
    with open_private(journal / "state" / "compact.lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LockedError(
                f"{journal} is being compacted by another process", next_step="wait until it is done"
            ) from error
        yield


def _covering(notes: list[str], facts: SegmentFacts) -> Checkpoint | None:
    """The first checkpoint that was signed over the whole segment."""
    return first_of(notes, facts.segment + 1, -1)  # the next one's header is under it: this one was sealed


def _to_parquet(log: WholeLog, facts: SegmentFacts, note: str) -> tuple[Retired, list[Path]]:
    from flyball.decision_log.retention.parquet_segment import PartsWriter, SegmentProof, digest_of

    # Of this segment only: one that is missing elsewhere, or in quarantine, is told by `verify` and keeps nobody.
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
        raise EvidenceError(f"segment {facts.segment} reads back from Parquet otherwise than it was: {faults[0]}")


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
