//! The kinds of damage to a log, and their positions.

use crate::format::{FormatError, Hash};
use crate::note::{Checkpoint, NoteError};
use crate::segment_scan::Broken;
use serde::{Serialize, Serializer};
use std::fmt;

/// A finding. Unknown parts of the position are none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub segment: Option<u64>,
    /// The index within its segment, from zero.
    pub frame: Option<u64>,
    pub seq: Option<u64>,
    /// The offset in the segment's file; for a damaged note, in the checkpoint file.
    pub offset: Option<u64>,
    #[serde(rename = "checkpoint")]
    pub note: Option<NoteOrigin>,
    pub what: FindingKind,
}

/// The checkpoint that revealed the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NoteOrigin {
    /// The note from outside the journal.
    pub outside: bool,
    /// Its number in the file, from one.
    pub number: u64,
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindingKind {
    #[error("the header is invalid: {0}")]
    Header(FormatError),
    #[error("the header belongs to segment {0}")]
    OtherSegment(u64),
    #[error("the header belongs to another journal")]
    OtherNode,
    #[error("the header is not linked to the previous segment: frames, root or last hash differ")]
    HeaderLink,
    #[error("its first record is {found}, not {expected}")]
    FirstSeq { expected: u64, found: u64 },
    #[error("segments up to {until} are missing{}", if *.quarantined { "; the first is in quarantine" } else { "" })]
    Missing { until: u64, quarantined: bool },
    #[error("the frame is invalid: {0}")]
    Frame(Broken),
    #[error("expected record {expected}, found {found}: {}", if .found > .expected { "some are missing" } else { "the order was changed" })]
    Sequence { expected: u64, found: u64 },
    #[error("it is not linked to the frame before it: one of the two was changed")]
    Link,
    #[error("{expected} frames were written, {found} are present")]
    Short { expected: u64, found: u64 },
    #[error("{expected} frames were written; this one was not among them")]
    Extra { expected: u64 },
    #[error("the frames do not match the root or last hash in the next header")]
    Root,
    #[error("{0} bytes were on disk, but the frames end earlier")]
    Durable(u64),
    #[error("there is data after the last frame")]
    Trailing,
    #[error("the data here imitates many frames; the rest of the segment was not read")]
    Unsearchable,
    #[error("the signature of the gap record is wrong")]
    GapSignature,
    #[error("the checkpoint is invalid: {0}")]
    Note(NoteError),
    #[error("there is no whole checkpoint here")]
    NoNote,
    #[error("the checkpoint belongs to another journal")]
    NoteNode,
    #[error("the key that must have signed the checkpoint is unknown; give the key")]
    NoteKey,
    #[error("the checkpoint covers less than the one before it")]
    NoteOrder,
    #[error("the open segment of the checkpoint does not follow those that it signs")]
    NoteShape,
    #[error(
        "a checkpoint signs {expected} frames of the segment, but {found} are present: the rest was removed"
    )]
    NoteFrames { expected: u64, found: u64 },
    #[error("a checkpoint signs another frame than this one")]
    NoteLast,
    #[error(
        "a checkpoint signs other roots for segments 1 to {sealed}; up to {fits} they match an earlier one"
    )]
    NoteRoot { fits: u64, sealed: u64 },
    #[error(
        "no checkpoint signs segments from here to {until}: anyone who can write to the folder may have rewritten them"
    )]
    Unsigned { until: u64 },
    #[error(
        "it is listed as retired, but segment {before} before it is not: only the start of a log is ever retired"
    )]
    RetiredInside { before: u64 },
    #[error(
        "the list of retired segments has {listed} as its next record, but the segment after it starts with {found}"
    )]
    RetiredSeq { listed: u64, found: u64 },
    #[error("the referenced blob sha256-{0} is missing")]
    BlobMissing(Hash),
    #[error("the referenced blob sha256-{0} was changed")]
    BlobChanged(Hash),
    #[error("cannot read the referenced blob sha256-{0}: {1}")]
    BlobUnread(Hash, String),
    #[error("the file of subjects' keys is missing; {0} subjects need it")]
    KeysMissing(u64),
    #[error("{0} entries of the file of subjects' keys are damaged")]
    KeysDamaged(u64),
    #[error("the key of subject {0} is missing, but no erasure is recorded")]
    KeyMissing(Hash),
    #[error("the key of subject {0} was deleted, but no erasure is recorded; erase the subject again")]
    ErasedUnrecorded(Hash),
    #[error("subject {0} was erased, but its key is back: it was restored from a copy")]
    KeyRestored(Hash),
    #[error("cannot read the index of a compacted segment: {0}")]
    Index(String),
}

impl Serialize for FindingKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Finding {
    pub(super) fn of_nothing(what: FindingKind) -> Finding {
        Finding { segment: None, frame: None, seq: None, offset: None, note: None, what }
    }

    pub(super) fn of_segment(segment: u64, what: FindingKind) -> Finding {
        Finding { segment: Some(segment), ..Finding::of_nothing(what) }
    }

    /// A finding at the last frame that a note signs.
    pub(super) fn of_note(note: &Checkpoint, place: NoteOrigin, what: FindingKind) -> Finding {
        let frame = note.open_frames.checked_sub(1);
        Finding { frame, note: Some(place), ..Finding::of_segment(note.open, what) }
    }

    /// A finding in the file of checkpoints, or in the outside one.
    pub(super) fn of_notes(offset: Option<u64>, place: NoteOrigin, what: FindingKind) -> Finding {
        Finding { offset, note: Some(place), ..Finding::of_nothing(what) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named =
            [("segment", self.segment), ("frame", self.frame), ("record", self.seq), ("byte", self.offset)];
        let places: Vec<String> =
            named.iter().filter_map(|(name, value)| Some(format!("{name} {}", (*value)?))).collect();
        let separator = if places.is_empty() { "" } else { ": " };
        write!(f, "{}{separator}{}", places.join(", "), self.what)
    }
}
