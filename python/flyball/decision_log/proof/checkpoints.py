"""Signed notes of a journal, as a person or another place keeps them: what they say, not whether they are right.

The signature is checked in Rust, by `JournalLog.verify`. docs/reference/journal-format.md has the form.
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
    """How far a log was when the note was signed: its sealed segments, and the frames of the open one."""

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
        """Whether a frame cannot be changed any more without the note's notice; frames count from nothing."""
        return segment <= self.sealed or (segment == self.open_segment and frame < self.open_frames)


def parse(note: str) -> Checkpoint:
    """A note's lines; one that is none is refused."""
    try:
        origin, sealed, root, opened, signed, *_ = note.splitlines()
        name, segment, frames, _leaf = opened.split(" ")
        word, unix_ms = signed.split(" ")
        if (name, word) != ("open", "time"):
            raise ValueError(name)
        return Checkpoint(origin, int(sealed), root, int(segment), int(frames), int(unix_ms), note)
    except ValueError as error:
        raise JournalRefusedError(
            "this is no checkpoint of a journal", next_step="one is printed by:  flyball decisions checkpoint"
        ) from error


def last(log: JournalLog) -> Checkpoint | None:
    """The newest note; none: nothing was signed yet."""
    notes = log.checkpoints()
    return parse(notes[-1]) if notes else None


def first_over(log: JournalLog, segment: int, frame: int) -> Checkpoint | None:
    """The oldest note that covers a frame: from then on it could not be changed unnoticed."""
    return first_of(log.checkpoints(), segment, frame)


def first_of(notes: list[str], segment: int, frame: int) -> Checkpoint | None:
    """The same, of notes that were read before: whoever asks for many frames reads them once."""
    # They only ever cover more, so the first one is found by halves: a year has half a million of them.
    place = bisect_left(notes, True, key=lambda note: parse(note).covers(segment, frame))
    return parse(notes[place]) if place < len(notes) else None
