//! The decision log and its readers.
//!
//! Records are stored in segment files, chained by hash under signed checkpoints, so that changes, removals
//! and reordering are detected. Knows nothing of decisions beyond the bytes of their records: the walk writes
//! those.
#![forbid(unsafe_code)]

mod annotations;
mod blobs;
mod counts;
mod disk;
mod error;
mod folder;
mod format;
mod frames;
mod gap_signature;
mod holds;
mod journal;
mod json;
mod keys;
mod lane;
mod legal;
mod log;
mod merkle;
mod node;
mod note;
mod payload;
mod proof;
pub mod record_codec;
mod record_facts;
mod recovery;
mod ring;
mod segment_scan;
mod settings;
mod shared;
mod sleep;
mod sync;
mod tickets;
mod verify;
mod writer;

pub use annotations::{ANNOTATION_BYTES_MAX, Annotation, AnnotationError, Erasure, HoldScope};
pub use blobs::{BLOB_BYTES_MAX, BlobError, Blobs};
pub use counts::{InternalKind, JournalCounts, SYNC_BOUNDS_NS};
pub use error::JournalError;
pub use format::{
    FORMAT, FRAME_HEAD_BYTES, FormatError, Frame, HEADER_BYTES, Hash, Header, MAGIC, PAYLOAD_BYTES_MAX,
    StartReason, frame_into,
};
pub use frames::{Found, Frames, Source, Step};
pub use holds::{Erasures, Hold, SubjectFacts};
pub use journal::Journal;
pub use json::{RenderError, render};
pub use keys::{KekSource, KeyError, Keys, Unsealed};
pub use legal::{Erased, LegalError};
pub use log::{
    Durable, FoundRecords, LocatedFrame, Log, LogError, ReadPosition, Retired, SegmentFacts, StoredFrame,
    head_of_record, time_of_record,
};
pub use note::{Checkpoint, NOTE_BYTES_MAX, NoteError, note_length, unhex};
pub use proof::{Proof, ProofError, Signed};
pub use segment_scan::{Broken, Scan, ScanFault, scan};
pub use settings::JournalSettings;
pub use verify::{
    Finding, FindingKind, NoteOrigin, Signed as SignedExtent, Verified, VerifyOptions, verify_frames,
};
pub use writer::Sealed;
