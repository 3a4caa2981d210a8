"""Documents of the journal: facts of segments, findings, proofs.

Must not know the extension, nor the content of records.
"""

from __future__ import annotations

from pydantic import Field

from flyball.native.answer import Answer


class SegmentFacts(Answer):
    """A segment file: its header, and the number of frames and bytes in it."""

    segment: int
    first_seq: int
    frames: int
    bytes: int
    began: str
    created_unix_ns: int
    sealed: bool
    root: str
    last: str


class Finding(Answer):
    """A fault of a log and its location; unknown parts of the location are None."""

    segment: int | None = None
    frame: int | None = None
    seq: int | None = None
    offset: int | None = None
    what: str

    def __str__(self) -> str:
        named = (("segment", self.segment), ("frame", self.frame), ("seq", self.seq), ("byte", self.offset))
        place = ", ".join(f"{name} {value}" for name, value in named if value is not None)
        return f"{place}: {self.what}" if place else self.what


class Signed(Answer):
    """The signed part of a log: all segments before this one, and this many frames of it."""

    segment: int
    frames: int


class Verified(Answer):
    """The extent of a verification, and all its findings."""

    frames: int
    segments: int
    checkpoints: int
    findings: list[Finding]
    findings_beyond: int = 0
    retired: int = 0
    unfinished: Finding | None = None
    retired_until: str | None = None  # earlier records were removed on purpose
    retired_segments: str | None = None  # in these segments, as in "1-3, 5"
    signed: Signed | None = None  # None: nothing is signed
    unsigned: int = 0  # records after the signed part
    blobs: int = 0  # files beside the log that records name
    subjects: int = 0  # with personal data, or erased


class Proof(Answer):
    """Proof that a record is in its segment, and the segment under a signed checkpoint; valid without findings."""

    seq: int
    segment: int
    index: int
    leaf: str
    path: list[str]
    root: str
    leaves: int
    checkpoint_path: list[str] | None = None
    checkpoint: str | None = None
    findings: list[str] = Field(default=[])
