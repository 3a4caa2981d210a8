"""Portable proofs: the path from a record to its segment's root, and from there to a signed checkpoint.

Computed from leaves, so that segments and Parquet share the code. Must not know the format of evidence packs.
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
    """A segment under the newest checkpoint, with the hashes of all its leaves, the header's first."""

    segment: int
    header: bytes
    frames: dict[int, Frame]
    leaves: list[bytes]
    checkpoint_path: list[bytes]

    @classmethod
    def of(cls, whole: WholeLog, segment: int, note: Checkpoint) -> ProvenSegment:
        """Build the proof; raises if the note does not cover the segment, or the hashes do not match."""
        if segment > note.sealed:
            raise UnavailableError(
                f"no proof yet: the record's segment {segment} is still open",
                code="not_sealed",
                next_step="have the server seal it:  --url http://HOST:PORT   or retry later",
            )
        roots = leaves_of(whole.roots(), note.sealed)
        header, found = whole.segment_frames(segment)
        frames = {frame.seq: frame for frame in found}
        leaves = [merkle.leaf(header), *(merkle.frame_leaf(item.seq, item.prev, item.payload) for item in frames.values())]
        if merkle.leaf(merkle.root(leaves)) != roots[segment - 1] or merkle.root(roots) != base64.b64decode(note.root):
            raise EvidenceError(
                f"segment {segment} does not match the signed checkpoint",
                next_step="see all findings:  flyball decisions verify",
            )
        return cls(segment, header, frames, leaves, merkle.path(roots, segment - 1))

    def document(self) -> dict[str, Any]:
        """The segment's proof, for an evidence pack."""
        return {
            "header": self.header.hex(), "header_path": _hex(merkle.path(self.leaves, 0)), "frames": len(self.leaves) - 1,
            "root": merkle.root(self.leaves).hex(), "path": _hex(self.checkpoint_path),
        }  # fmt: skip

    def frame_document(self, seq: int) -> dict[str, Any]:
        """The proof of a record in it."""
        frame, first = self.frames[seq], next(iter(self.frames))
        path = merkle.path(self.leaves, seq - first + 1)
        return {"seq": seq, "segment": self.segment, "prev": frame.prev.hex(), "path": _hex(path)}


def prove_compacted(whole: WholeLog, seq: int) -> Proof:
    """Prove a record in Parquet, as the native reader does for records in segments."""
    entry = ParquetLog(whole.folder).of(seq)
    if entry is None:
        raise NotFoundError(f"no compacted record {seq}", code="record_not_found")
    note = newest_note(whole)
    position: dict[str, Any] = {
        "seq": seq, "segment": entry.segment, "index": seq - entry.first_seq, "root": entry.root
    }  # fmt: skip
    try:
        proven = ProvenSegment.of(whole, entry.segment, note)
    except EvidenceError as error:
        return Proof(**position, leaf="", path=[], leaves=entry.frames + 1, findings=[error.message])
    return Proof(
        **position, leaf=proven.frames[seq].leaf.hex(), path=proven.frame_document(seq)["path"], leaves=len(proven.leaves),
        checkpoint_path=_hex(proven.checkpoint_path), checkpoint=note.note,
    )  # fmt: skip


def newest_note(whole: WholeLog) -> Checkpoint:
    """The last checkpoint."""
    note = last(whole)
    if note is None:
        raise UnavailableError(
            "the journal has no signed checkpoint yet",
            code="not_sealed",
            next_step="retry later: the server writes one every minute",
        )
    return note


def leaves_of(roots: dict[int, str], sealed: int) -> list[bytes]:
    """The leaves of a checkpoint's tree: one per segment sealed then."""
    missing = [number for number in range(1, sealed + 1) if number not in roots]
    if missing:
        raise JournalRefusedError(f"segment {missing[0]} is neither in the journal nor in its list of retired segments")
    return [merkle.leaf(bytes.fromhex(roots[number])) for number in range(1, sealed + 1)]


def _hex(hashes: list[bytes]) -> list[str]:
    return [one.hex() for one in hashes]
