//! The decision log and its readers.
//!
//! Records are stored in segment files, chained by hash under signed checkpoints, so that changes, removals
//! and reordering are detected. Knows nothing of decisions beyond the bytes of their records: the walk writes
//! those.
#![forbid(unsafe_code)]

mod blobs;
mod counts;
mod disk;
mod error;
mod folder;
mod format;
mod frames;
mod gap_signature;
mod gist;
mod holds;
mod journal;
mod json;
mod keys;
mod lane;
mod ledger;
mod log;
pub mod merkle;
mod node;
mod note;
mod opening;
mod payload;
mod proof;
mod recover;
mod ring;
mod settings;
mod shared;
mod tickets;
mod told;
mod verify;
mod writer;

pub use blobs::{BLOB_BYTES_MAX, BlobError, Blobs, hash};
pub use counts::{JournalCounts, OwnKind, SYNC_BOUNDS_NS};
pub use error::JournalError;
pub use format::{
    Began, FORMAT, FRAME_HEAD_BYTES, FormatError, Frame, HEADER_BYTES, Hash, Header, MAGIC,
    PAYLOAD_BYTES_MAX, frame_into,
};
pub use frames::{Found, Frames, Source, Step};
pub use holds::{Erasures, Hold, SubjectFacts};
pub use journal::Journal;
pub use json::{RenderError, render};
pub use keys::{KekPlace, KeyError, Keys, Opened};
pub use ledger::{Erased, LedgerError};
pub use log::{
    Durable, Finds, Kept, Log, LogError, Placed, Reached, Retired, SegmentFacts, head_of_record,
    time_of_record,
};
pub use note::{Checkpoint, NOTE_BYTES_MAX, NoteError, note_length, unhex};
pub use proof::{Proof, ProofError, Signed};
pub use recover::{Broken, Scan, ScanFault, scan};
pub use settings::{JournalSettings, Wall};
pub use told::{Erasure, Held, TOLD_BYTES_MAX, Told, ToldError};
pub use verify::{Finding, NotePlace, Signed as SignedExtent, Verified, VerifyOptions, What, verify_frames};
pub use writer::Sealed;
