"""What crosses to the journal and back: facts of segments, findings, proofs.

Must not know the extension, nor what stands in records.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Answer(BaseModel):
    # Extra keys are taken silently: an extension built from a newer commit may tell more.
    model_config = ConfigDict(frozen=True, extra="ignore")


class SegmentFacts(_Answer):
    """A segment file: what its header says, and what was counted in it."""

    segment: int
    first_seq: int
    frames: int
    bytes: int
    began: str
    created_unix_ns: int
    sealed: bool
    root: str
    last: str


class Finding(_Answer):
    """Something that is wrong with a log, and where; what is not known of the place is None."""

    segment: int | None = None
    frame: int | None = None
    seq: int | None = None
    offset: int | None = None
    what: str

    def __str__(self) -> str:
        named = (("segment", self.segment), ("frame", self.frame), ("seq", self.seq), ("byte", self.offset))
        place = ", ".join(f"{name} {value}" for name, value in named if value is not None)
        return f"{place}: {self.what}" if place else self.what


class Signed(_Answer):
    """How far checkpoints sign a log: all segments before this one, and so many frames of it."""

    segment: int
    frames: int


class Verified(_Answer):
    """What a verification looked at, and everything that it found wrong."""

    frames: int
    segments: int
    checkpoints: int
    findings: list[Finding]
    findings_beyond: int = 0
    retired: int = 0
    unfinished: Finding | None = None
    retired_until: str | None = None  # records before were removed on purpose
    retired_segments: str | None = None  # in these segments, as in "1-3, 5"
    signed: Signed | None = None  # None: nothing of it is signed
    unsigned: int = 0  # records behind that
    blobs: int = 0  # beside the log, that records name
    subjects: int = 0  # with something personal, or erased


class Proof(_Answer):
    """That a record is in its segment, and its segment under a signed checkpoint; holds where nothing was found."""

    seq: int
    segment: int
    index: int
    leaf: str
    path: list[str]
    root: str
    leaves: int
    checkpoint_path: list[str] | None = None
    checkpoint: str | None = None
    findings: list[str] = []
