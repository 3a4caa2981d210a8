"""Proofs that leave the house: a record's way to its segment's root, and from there to a signed checkpoint.

Computed from leaves, so that it is one way for segments and for Parquet. Must not know what an evidence pack looks like.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.decision_log.proof import merkle
from flyball.decision_log.proof.checkpoints import last
from flyball.decision_log.read.parquet_log import ParquetLog
from flyball.errors import EvidenceError, JournalRefusedError, NotFoundError, UnavailableError
from flyball.native.journal_documents import Proof

if TYPE_CHECKING:
    from flyball.decision_log.proof.checkpoints import Checkpoint
    from flyball.decision_log.read.whole_log import WholeLog
    from flyball.native.journal import Frame


@dataclass(frozen=True, slots=True)
class ProvenSegment:
    """A segment under the newest checkpoint, with the hashes of all its leaves: the header's first."""

    segment: int
    header: bytes
    frames: dict[int, Frame]
    leaves: list[bytes]
    checkpoint_path: list[bytes]

    @classmethod
    def of(cls, whole: WholeLog, segment: int, note: Checkpoint) -> ProvenSegment:
        """Refused where the note does not cover the segment, or the log does not lead to the note."""
        if segment > note.sealed:
            raise UnavailableError(
                f"segment {segment}, where it was recorded, is still written to: there is no proof yet",
                code="not_sealed",
                next_step="have the server seal it:  --url http://HOST:PORT   or try again later",
            )
        roots = leaves_of(whole.roots(), note.sealed)
        header, found = whole.segment_frames(segment)
        frames = {frame.seq: frame for frame in found}
        leaves = [merkle.leaf(header), *(merkle.frame_leaf(item.seq, item.prev, item.payload) for item in frames.values())]
        if merkle.leaf(merkle.root(leaves)) != roots[segment - 1] or merkle.root(roots) != base64.b64decode(note.root):
            raise EvidenceError(
                f"segment {segment} does not lead to the signed checkpoint",
                next_step="see what is wrong:  flyball decisions verify",
            )
        return cls(segment, header, frames, leaves, merkle.path(roots, segment - 1))

    def document(self) -> dict[str, Any]:
        """What an evidence pack says of the segment."""
        return {
            "header": self.header.hex(), "header_path": _hex(merkle.path(self.leaves, 0)), "frames": len(self.leaves) - 1,
            "root": merkle.root(self.leaves).hex(), "path": _hex(self.checkpoint_path),
        }  # fmt: skip

    def frame_document(self, seq: int) -> dict[str, Any]:
        """And of a record in it."""
        frame, first = self.frames[seq], next(iter(self.frames))
        path = merkle.path(self.leaves, seq - first + 1)
        return {"seq": seq, "segment": self.segment, "prev": frame.prev.hex(), "path": _hex(path)}


def prove_compacted(whole: WholeLog, seq: int) -> Proof:
    """The same as the native reader proves of what is in segments, for a record in Parquet."""
    entry = ParquetLog(whole.folder).of(seq)
    if entry is None:
        raise NotFoundError(f"no record {seq} was compacted", code="record_not_found")
    note = newest_note(whole)
    place: dict[str, Any] = {
        "seq": seq, "segment": entry.segment, "index": seq - entry.first_seq, "root": entry.root
    }  # fmt: skip
    try:
        proven = ProvenSegment.of(whole, entry.segment, note)
    except EvidenceError as error:
        return Proof(**place, leaf="", path=[], leaves=entry.frames + 1, findings=[error.message])
    return Proof(
        **place, leaf=proven.frames[seq].leaf.hex(), path=proven.frame_document(seq)["path"], leaves=len(proven.leaves),
        checkpoint_path=_hex(proven.checkpoint_path), checkpoint=note.note,
    )  # fmt: skip


def newest_note(whole: WholeLog) -> Checkpoint:
    """The last checkpoint."""
    note = last(whole)
    if note is None:
        raise UnavailableError(
            "the journal has no signed checkpoint yet", code="not_sealed", next_step="the server writes one every minute"
        )
    return note


def leaves_of(roots: dict[int, str], sealed: int) -> list[bytes]:
    """The leaves of a checkpoint's tree: one for each of the segments that were sealed then."""
    missing = [number for number in range(1, sealed + 1) if number not in roots]
    if missing:
        raise JournalRefusedError(f"segment {missing[0]} is neither in the journal nor on its list of retired segments")
    return [merkle.leaf(bytes.fromhex(roots[number])) for number in range(1, sealed + 1)]


def _hex(hashes: list[bytes]) -> list[str]:
    return [one.hex() for one in hashes]
