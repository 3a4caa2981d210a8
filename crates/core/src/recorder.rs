//! The interface between the walk and the journal.
//!
//! A slot for the record is reserved before anything is computed, so that no decision that must be recorded
//! is computed for nothing. A record with a reserved slot is always accepted.

use crate::{DecisionId, Digest};
use std::task::{Context, Poll};

crate::labelled! {
    /// The reason why the journal cannot store records now; a bounded label.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Unavailable {
        /// The disk is full.
        Full => "full",
        /// More records wait to be written than may be lost.
        Behind => "behind",
        /// The disk failed, and the segment being written was abandoned.
        Broken => "broken",
        /// The directory or the open file was deleted, moved or replaced.
        Gone => "gone",
        Closed => "closed",
    }
}

crate::labelled! {
    /// The kind of a record. The labels are stored in the log under `kind`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum RecordKind {
        /// A decided row.
        Decision => "decision",
        /// An admitted row without a decision.
        Failed => "failed",
        /// A shadow's result for a decision.
        Shadow => "shadow",
        /// A decision whose client disconnected.
        Undelivered => "undelivered",
        /// The actual outcome of a decision, reported later.
        Outcome => "outcome",
        /// A person's decision that replaces or completes the automatic one.
        Override => "override",
        /// A subject's key was deleted.
        Erased => "erased",
        /// A legal hold on records was placed or released.
        Hold => "hold",
        Release => "release",
        /// A decision started to serve with this document.
        Served => "served",
        /// A registry snapshot started to serve.
        Registry => "registry",
        /// Tensors sent directly to the model of a decision that exposes it.
        Tensors => "tensors",
    }
}

/// A record on its way to the log. Its buffers are reused.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalRecord {
    pub kind: RecordKind,
    pub id: DecisionId,
    /// The pairs of a CBOR map, without the map header, the kind and the id.
    pub pairs: Vec<u8>,
    pub pairs_count: u32,
    /// A CBOR map: the input without personal data. Empty means none. Long inputs are stored outside the log.
    pub input: Vec<u8>,
    /// A CBOR map of personal data, to be encrypted under the subject's key. Empty means none.
    pub personal: Vec<u8>,
    /// The subject's identifier as text; empty means no other subject.
    pub subject: Vec<u8>,
    /// A caller waits until the record is on disk.
    pub sync: bool,
}

impl Default for JournalRecord {
    fn default() -> JournalRecord {
        JournalRecord {
            kind: RecordKind::Decision,
            id: DecisionId(0),
            pairs: Vec::new(),
            pairs_count: 0,
            input: Vec::new(),
            personal: Vec::new(),
            subject: Vec::new(),
            sync: false,
        }
    }
}

impl JournalRecord {
    pub fn clear(&mut self) {
        let JournalRecord { pairs, input, personal, subject, .. } = self;
        [pairs, input, personal, subject].into_iter().for_each(Vec::clear);
        (self.pairs_count, self.sync) = (0, false);
    }
}

/// The sequence number of a record within its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A lane's interface to the journal. Nothing here waits.
pub trait LaneRecorder {
    /// Reserves this many slots, or none of them.
    fn reserve(&self, records: usize) -> Result<(), Unavailable>;

    /// Releases reserved slots that were not used.
    fn release(&self, records: usize);

    /// Returns an empty record.
    fn blank(&self) -> Box<JournalRecord>;

    /// Submits a record and uses one reserved slot.
    fn offer(&self, record: Box<JournalRecord>) -> Ticket;

    /// Completes when the record and all earlier records of the lane are on disk or failed.
    ///
    /// Returns the result of this record: earlier ones may have had a different result.
    fn poll_durable(&self, ticket: Ticket, context: &mut Context<'_>) -> Poll<Result<(), Unavailable>>;

    /// The caller no longer waits for this record. If it does not reach the disk, a gap record counts it.
    fn orphan(&self, ticket: Ticket);

    /// Counts decisions answered without a record. A gap record will contain them.
    fn missed(&self, decisions: usize, why: Unavailable);
}

/// The documents of a serving decision, which its records reference by digest.
#[derive(Clone, Debug)]
pub struct Served {
    pub decision: String,
    /// The digest of the following documents, as in `Decisions`.
    pub document: Digest,
    pub policy: Digest,
    pub schema: Digest,
    /// The whole deployment document of the Snapshot as JSON, and the directory that its paths are relative
    /// to.
    pub deployment: Vec<u8>,
    pub base: String,
    /// The machine-dependent facts of a run, as JSON. Records reference it by digest.
    pub runtime: Vec<u8>,
}

/// The last registry event in the snapshot that is applied now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub sequence: u64,
    pub hash: Digest,
    /// The generation of the snapshot.
    pub generation: u64,
    pub environment: String,
}

/// Stores decisions. All lanes share one recorder.
pub trait Recorder: Send + Sync {
    /// Creates the lane's recorder. Called once, on the lane's thread.
    fn lane(&self, lane: usize) -> Box<dyn LaneRecorder>;

    /// May wait for the disk, so a lane must not call it.
    fn served(&self, served: Served);

    /// May wait for the disk, so a lane must not call it.
    fn registered(&self, registered: Registered);
}
