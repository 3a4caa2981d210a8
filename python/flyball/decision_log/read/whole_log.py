"""The whole log, Parquet and segments, with the interface of `JournalLog`.

Readers of records use this; writers of Parquet use `JournalLog`. Must not know how records are shown.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from flyball.decision_log.read.parquet_log import ParquetLog
from flyball.errors import EvidenceError
from flyball.native.journal import JournalLog
from flyball.native.journal_documents import Verified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flyball.decision_log.retention.retired import Retired
    from flyball.native.journal import Frame, Wanted
    from flyball.native.journal_documents import Proof

_MOST = 4096


class WholeLog(JournalLog):
    """A journal's folder with all its records."""

    def read(self, from_seq: int, wanted: Wanted) -> Iterator[dict[str, Any]]:
        """Each record once, also while compaction moves them."""
        tried, end, begin = -1, False, None
        parquet = ParquetLog(self.folder)
        while not end:
            for entry in _compacted(parquet, from_seq):
                if entry.gone_unix_ns is None and (wanted.since_ns is None or entry.newest_unix_ns >= wanted.since_ns):
                    yield from self._of_parquet(parquet, entry, from_seq, wanted)
                from_seq = entry.next_seq
            try:
                begin = self.first_since(wanted.since_ns) if begin is None else begin
                lines, from_seq, end = self.chunk(max(from_seq, begin), _MOST, asdict(wanted))
            except EvidenceError as error:
                # It was compacted in between; by now the list has it, or it is lost.
                if error.code != "journal_moved" or tried == from_seq:
                    raise
                tried, parquet = from_seq, ParquetLog(self.folder)
                continue
            yield from map(self.with_input, map(json.loads, lines.splitlines()))

    def _of_parquet(self, parquet: ParquetLog, entry: Retired, from_seq: int, wanted: Wanted) -> Iterator[dict[str, Any]]:
        for frame in parquet.frames(entry):
            if frame.seq >= from_seq:
                record = self.placed(frame, entry.first_seq)
                if wanted.has(record, record.get("at", entry.created_unix_ns)):
                    yield record

    def find(self, decision_id: str) -> list[dict[str, Any]]:
        """All records of a decision, oldest first: its own and its annotations."""
        try:
            live = super().find(decision_id)
        except EvidenceError as error:
            if error.code != "journal_moved":
                raise
            live = super().find(decision_id)
        # Segments first: a record that compaction moves meanwhile is then seen twice, not never.
        compacted = ParquetLog(self.folder).find(decision_id)
        found = {frame.seq: self.placed(frame, entry.first_seq) for entry, frame in compacted}
        return list((found | {record["seq"]: record for record in live}).values())

    def erasure(self, subject: str, from_seq: int) -> dict[str, Any] | None:
        """The first erasure of a subject from a sequence number on; None if none, or if its record was removed."""
        parquet = ParquetLog(self.folder)
        for entry in _compacted(parquet, from_seq):
            for frame in parquet.events(entry, "erased") if entry.gone_unix_ns is None else ():
                record = self.placed(frame, entry.first_seq)
                if frame.seq >= from_seq and record.get("subject") == subject:
                    return record
            from_seq = entry.next_seq
        return super().erasure(subject, from_seq)

    def placed(self, frame: Frame, first_seq: int) -> dict[str, Any]:
        """Convert a frame to a record with its position, like the native reader."""
        position = {"seq": frame.seq, "segment": frame.segment, "frame": frame.seq - first_seq}
        return self.with_input(
            {**self.render(frame.payload), **position, "leaf": frame.leaf.hex(), "prev": frame.prev.hex()}
        )

    def prove(self, seq: int) -> Proof:
        """Prove that a record is in its segment, and the segment under the last checkpoint."""
        if ParquetLog(self.folder).of(seq) is None:
            return super().prove(seq)
        from flyball.decision_log.proof.prove import prove_compacted

        return prove_compacted(self, seq)

    def verify(
        self,
        *,
        segment: int | None = None,
        checkpoint: str | None = None,
        key: str | None = None,
        without_keys: bool = False,
        told: Callable[[int, int], None] | None = None,
    ) -> Verified:
        """Verify segments and Parquet, and collect all findings."""
        from flyball.decision_log.proof.verify_parquet import verify_parquet

        parquet = verify_parquet(self.folder, segment, told)
        if segment is not None and parquet.segments:
            return Verified(frames=parquet.records, segments=1, checkpoints=0, findings=parquet.findings)
        native = super().verify(segment=segment, checkpoint=checkpoint, key=key, without_keys=without_keys, told=told)
        return native.model_copy(
            update={
                "frames": native.frames + parquet.records,
                "segments": native.segments + parquet.segments,
                "findings": [*parquet.findings, *native.findings],
                "retired_until": parquet.retired_until,
                "retired_segments": parquet.retired_segments,
            }
        )

    def segment_frames(self, segment: int) -> tuple[bytes, list[Frame]]:
        """A segment's header and its durable frames, from Parquet or its own file."""
        parquet = ParquetLog(self.folder)
        if segment in parquet.entries:
            entry = parquet.entries[segment]
            return parquet.header(entry), parquet.frames(entry)
        return self.header(segment), list(self.live_frames(segment))

    def segment_records(self, segment: int) -> Iterator[dict[str, Any]]:
        """The durable records of a segment, from Parquet or its own file."""
        _, frames = self.segment_frames(segment)
        return ({**self.render(frame.payload), "seq": frame.seq, "segment": frame.segment} for frame in frames)

    def live_records(self, kinds: list[str] | None = None) -> Iterator[dict[str, Any]]:
        """The records in segments, also those not yet durable."""
        segments = self.segments()
        at, end = segments[0].first_seq if segments else 0, not segments
        while not end:
            lines, at, end = self.chunk(at, _MOST, {"kinds": kinds})
            yield from map(json.loads, lines.splitlines())

    def live_frames(self, segment: int) -> Iterator[Frame]:
        """Durable frames of a segment that still has its own file."""
        facts = next(facts for facts in self.segments() if facts.segment == segment)
        seq, end = facts.first_seq, facts.first_seq + facts.frames
        while seq < end:
            # Not one frame further: damage in the next segment must not fail this one.
            most = min(_MOST, end - seq)
            found = list(islice(self.frames(seq, most), most))
            yield from (frame for frame in found if frame.segment == segment)
            seq = found[-1].seq + 1 if found else end

    def roots(self) -> dict[int, str]:
        """Roots of all sealed segments ever, by number, in hex. The writer's file has those in quarantine, too."""
        file = self.folder / "roots"
        noted = file.read_bytes() if file.exists() else b""
        known = {at // 32 + 1: noted[at : at + 32].hex() for at in range(0, len(noted), 32)}
        listed = {number: entry.root for number, entry in ParquetLog(self.folder).retired.items()}
        return known | listed | {facts.segment: facts.root for facts in self.segments() if facts.sealed}


def _compacted(parquet: ParquetLog, from_seq: int) -> Iterator[Retired]:
    """Segments after a sequence number without a file of their own, in order."""
    for entry in parquet.retired.values():
        if entry.next_seq > from_seq:
            if entry.gone_unix_ns is None and entry.segment not in parquet.entries:
                return  # its own file still exists
            yield entry
