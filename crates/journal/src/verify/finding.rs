//! What can be wrong with a log, and where.

use crate::format::{FormatError, Hash};
use crate::note::{Checkpoint, NoteError};
use crate::recover::Broken;
use serde_json::{Value, json};
use std::fmt;

/// Something that is not as it was written. What is not known of the place is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub segment: Option<u64>,
    /// Among the frames of its segment, from nothing on.
    pub frame: Option<u64>,
    pub seq: Option<u64>,
    /// In the segment's file; of a note that is broken, in the file of checkpoints.
    pub offset: Option<u64>,
    pub note: Option<NotePlace>,
    pub what: What,
}

/// Which checkpoint told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotePlace {
    /// The one that was kept elsewhere.
    pub outside: bool,
    /// In the file, from one on.
    pub number: u64,
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum What {
    #[error("the header does not hold: {0}")]
    Header(FormatError),
    #[error("the header is of segment {0}")]
    OtherSegment(u64),
    #[error("the header is of another journal")]
    OtherNode,
    #[error("the header is not linked to the segment before: frames, root or last hash are others")]
    HeaderLink,
    #[error("its first record is {found}, not {expected}")]
    FirstSeq { expected: u64, found: u64 },
    #[error("segments up to {until} are not there{}", if *.quarantined { "; the first is in quarantine" } else { "" })]
    Missing { until: u64, quarantined: bool },
    #[error("the frame does not hold: {0}")]
    Frame(Broken),
    #[error("record {expected} must stand here, and {found} does: {}", if .found > .expected { "some are missing" } else { "the order is another" })]
    Sequence { expected: u64, found: u64 },
    #[error("it is not linked to what stands before it: one of the two was changed")]
    Link,
    #[error("{expected} frames were written and {found} are there")]
    Short { expected: u64, found: u64 },
    #[error("{expected} frames were written; this one was not among them")]
    Extra { expected: u64 },
    #[error("the frames lead to another root or last hash than the next header has")]
    Root,
    #[error("{0} bytes were on the disk, and the frames end before")]
    Durable(u64),
    #[error("something stands behind the last frame")]
    Trailing,
    #[error("what stands here looks like many frames and is none; the rest of the segment was not read")]
    Unsearchable,
    #[error("the signature of the gap record is wrong")]
    GapSignature,
    #[error("the checkpoint does not hold: {0}")]
    Note(NoteError),
    #[error("no whole checkpoint stands here")]
    NoNote,
    #[error("the checkpoint is of another journal")]
    NoteNode,
    #[error("nothing says by which key the checkpoint must be signed; give the key")]
    NoteKey,
    #[error("the checkpoint says less than the one before it")]
    NoteOrder,
    #[error("the open segment of the checkpoint is not the one behind those that it signs")]
    NoteShape,
    #[error(
        "a checkpoint signs {expected} frames of the segment, and {found} are there: the rest was removed"
    )]
    NoteFrames { expected: u64, found: u64 },
    #[error("a checkpoint signs another frame than stands here")]
    NoteLast,
    #[error(
        "a checkpoint signs other roots for segments 1 to {sealed}; up to {fits} they fit an earlier one"
    )]
    NoteRoot { fits: u64, sealed: u64 },
    #[error(
        "no checkpoint signs segments from here to {until}: whoever can write to the folder may have made them anew"
    )]
    Unsigned { until: u64 },
    #[error(
        "it is listed as retired, and segment {before} before it is not: only the beginning of a log is ever retired"
    )]
    RetiredInside { before: u64 },
    #[error(
        "the list of retired segments has {listed} as its next record, and the segment behind it begins with {found}"
    )]
    RetiredSeq { listed: u64, found: u64 },
    #[error("the blob sha256-{0} that it names is missing")]
    BlobMissing(Hash),
    #[error("the blob sha256-{0} that it names was changed")]
    BlobChanged(Hash),
    #[error("the blob sha256-{0} that it names cannot be read: {1}")]
    BlobUnread(Hash, String),
    #[error("the file of subjects' keys is missing; {0} subjects need it")]
    KeysMissing(u64),
    #[error("{0} entries of the file of subjects' keys are damaged")]
    KeysDamaged(u64),
    #[error("the key of subject {0} is missing, and no erasure is recorded")]
    KeyMissing(Hash),
    #[error("the key of subject {0} was deleted, and no erasure is recorded; erase the subject again")]
    ErasedUnrecorded(Hash),
    #[error("subject {0} was erased, and its key is there again: it was restored from a copy")]
    KeyRestored(Hash),
    #[error("the index of a compacted segment cannot be read: {0}")]
    Index(String),
}

impl Finding {
    pub(super) fn of_nothing(what: What) -> Finding {
        Finding { segment: None, frame: None, seq: None, offset: None, note: None, what }
    }

    pub(super) fn of_segment(segment: u64, what: What) -> Finding {
        Finding { segment: Some(segment), ..Finding::of_nothing(what) }
    }

    /// At the last frame that a note signs.
    pub(super) fn of_note(note: &Checkpoint, place: NotePlace, what: What) -> Finding {
        let frame = note.open_frames.checked_sub(1);
        Finding { frame, note: Some(place), ..Finding::of_segment(note.open, what) }
    }

    pub fn to_json(&self) -> Value {
        let note = self.note.map(|NotePlace { outside, number, offset }| {
            json!({"outside": outside, "number": number, "offset": offset})
        });
        json!({
            "segment": self.segment,
            "frame": self.frame,
            "seq": self.seq,
            "offset": self.offset,
            "checkpoint": note,
            "what": self.what.to_string(),
        })
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

impl super::Verified {
    pub fn to_json(&self) -> Value {
        json!({
            "frames": self.frames,
            "segments": self.segments,
            "retired": self.retired,
            "checkpoints": self.checkpoints,
            "signed": self.signed.map(|signed| json!({"segment": signed.segment, "frames": signed.frames})),
            "unsigned": self.unsigned,
            "blobs": self.blobs,
            "subjects": self.subjects,
            "findings": self.findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
            "findings_beyond": self.findings_beyond,
            "unfinished": self.unfinished.as_ref().map(Finding::to_json),
        })
    }
}
