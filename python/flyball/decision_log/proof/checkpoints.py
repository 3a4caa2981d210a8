"""Parses a journal's signed checkpoints (notes), without verifying them.

`JournalLog.verify` verifies the signature, in Rust. docs/reference/journal-format.md defines the format.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from flyball.errors import JournalRefusedError

if TYPE_CHECKING:
    from flyball.native.journal import JournalLog


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The extent of a log when the note was signed: its sealed segments, and the open segment's frames."""

    origin: str
    sealed: int
    root: str
    open_segment: int
    open_frames: int
    unix_ms: int
    note: str

    @property
    def time(self) -> datetime:
        """When it was signed."""
        return datetime.fromtimestamp(self.unix_ms / 1000, UTC)

    def covers(self, segment: int, frame: int) -> bool:
        """Whether the note protects a frame (counted from 0) against unnoticed change."""
        return segment <= self.sealed or (segment == self.open_segment and frame < self.open_frames)


def parse(note: str) -> Checkpoint:
    """Parse a note; raises `JournalRefusedError` if it is none."""
    try:
        origin, sealed, root, opened, signed, *_ = note.splitlines()
        name, segment, frames, _leaf = opened.split(" ")
        word, unix_ms = signed.split(" ")
        if (name, word) != ("open", "time"):
            raise ValueError(name)
        return Checkpoint(origin, int(sealed), root, int(segment), int(frames), int(unix_ms), note)
    except ValueError as error:
        raise JournalRefusedError(
            "not a journal's checkpoint", next_step="print one:  flyball decisions checkpoint"
        ) from error


def last(log: JournalLog) -> Checkpoint | None:
    """The newest note; None if nothing was signed yet."""
    notes = log.checkpoints()
    return parse(notes[-1]) if notes else None


def first_over(log: JournalLog, segment: int, frame: int) -> Checkpoint | None:
    """The oldest note that covers a frame: from then on it could not be changed unnoticed."""
    return first_of(log.checkpoints(), segment, frame)


def first_of(notes: list[str], segment: int, frame: int) -> Checkpoint | None:
    """Like `first_over`, for notes already read: callers with many frames read them once."""
    # Coverage only grows, so bisection finds the first one: a year has half a million notes.
    index = bisect_left(notes, True, key=lambda note: parse(note).covers(segment, frame))
    return parse(notes[index]) if index < len(notes) else None
