//! What keeps decisions, as the walk sees it. A place for a record is held before anything is computed for it, so that a
//! decision that must be recorded is never made in vain; what is offered is taken.

use crate::{DecisionId, Digest};
use std::task::{Context, Poll};

/// Why nothing can be kept just now; a bounded label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unkept {
    /// No room on the disk.
    Full,
    /// More waits to be written than may be lost.
    Behind,
    /// The disk failed, and the file that it failed for is given up.
    Broken,
    /// Its folder or its open file was deleted, moved or replaced.
    Gone,
    Closed,
}

impl Unkept {
    pub const ALL: [Unkept; 5] = [Unkept::Full, Unkept::Behind, Unkept::Broken, Unkept::Gone, Unkept::Closed];

    pub const fn label(self) -> &'static str {
        match self {
            Unkept::Full => "full",
            Unkept::Behind => "behind",
            Unkept::Broken => "broken",
            Unkept::Gone => "gone",
            Unkept::Closed => "closed",
        }
    }

    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What an entry is of. The labels stand in the log, under `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A row that was decided.
    Decision,
    /// A row that was admitted and came to no decision.
    Failed,
    /// What a shadow made of a decision.
    Shadow,
    /// A decision whose client had hung up.
    Undelivered,
    /// The truth about a decision, told later.
    Outcome,
    /// What a person decided instead, or about a decision that was left to people.
    Override,
    /// A subject's key is deleted.
    Erased,
    /// Records that must not be removed, and that they may be again.
    Hold,
    Release,
    /// A decision serves from now on, as its document says.
    Served,
    /// What a registry says serves from now on.
    Registry,
    /// Tensors that were sent past a decision to its model, where that is exposed.
    Tensors,
}

impl EntryKind {
    pub const ALL: [EntryKind; 12] = [
        EntryKind::Decision,
        EntryKind::Failed,
        EntryKind::Shadow,
        EntryKind::Undelivered,
        EntryKind::Outcome,
        EntryKind::Override,
        EntryKind::Erased,
        EntryKind::Hold,
        EntryKind::Release,
        EntryKind::Served,
        EntryKind::Registry,
        EntryKind::Tensors,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            EntryKind::Decision => "decision",
            EntryKind::Failed => "failed",
            EntryKind::Shadow => "shadow",
            EntryKind::Undelivered => "undelivered",
            EntryKind::Outcome => "outcome",
            EntryKind::Override => "override",
            EntryKind::Erased => "erased",
            EntryKind::Hold => "hold",
            EntryKind::Release => "release",
            EntryKind::Served => "served",
            EntryKind::Registry => "registry",
            EntryKind::Tensors => "tensors",
        }
    }
}

/// A record on its way to the log. Its buffers are used again.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub kind: EntryKind,
    pub id: DecisionId,
    /// The pairs of a CBOR map, without the map's own head, the kind and the id.
    pub pairs: Vec<u8>,
    pub pairs_count: u32,
    /// A CBOR map: what was sent, without what is personal. Empty: none. Kept beside the log where it is long.
    pub input: Vec<u8>,
    /// A CBOR map of what is personal, to be encrypted under its subject's key. Empty: none.
    pub personal: Vec<u8>,
    /// Whom it is about, as text; empty: nobody but itself.
    pub subject: Vec<u8>,
    /// Somebody waits until it is on the disk.
    pub sync: bool,
}

impl Default for Entry {
    fn default() -> Entry {
        Entry {
            kind: EntryKind::Decision,
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

impl Entry {
    pub fn clear(&mut self) {
        let Entry { pairs, input, personal, subject, .. } = self;
        [pairs, input, personal, subject].into_iter().for_each(Vec::clear);
        (self.pairs_count, self.sync) = (0, false);
    }
}

/// The place of an entry among those that its lane offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A lane's own way to the log. Nothing here waits.
pub trait LaneRecorder {
    /// Holds so many places, or none of them.
    fn reserve(&self, entries: usize) -> Result<(), Unkept>;

    /// Gives back places that were held and not used.
    fn release(&self, entries: usize);

    /// An empty entry.
    fn blank(&self) -> Box<Entry>;

    /// Takes an entry, and one of the places that are held.
    fn offer(&self, entry: Box<Entry>) -> Ticket;

    /// Ready once the entry, and all that the lane offered before it, are on the disk, or cannot be brought there. Tells what
    /// became of this one: those before it may have fared otherwise.
    fn poll_kept(&self, ticket: Ticket, context: &mut Context<'_>) -> Poll<Result<(), Unkept>>;

    /// Nobody waits any more for a decision whose entry was to be waited for. If it does not come to the disk, it will stand
    /// in a gap record.
    fn orphan(&self, ticket: Ticket);

    /// So many decisions were answered without a record. They will stand in a gap record.
    fn missed(&self, decisions: usize, why: Unkept);
}

/// How a decision serves: what its records refer to by digest.
#[derive(Clone, Debug)]
pub struct Served {
    pub decision: String,
    /// Of the documents that follow, as `Decisions` states it.
    pub document: Digest,
    pub policy: Digest,
    pub schema: Digest,
    /// The deployment's whole document as the Snapshot had it, JSON, and the folder that its paths start from.
    pub deployment: Vec<u8>,
    pub base: String,
    /// What makes a run differ from machine to machine, JSON. Records name it by its digest.
    pub runtime: Vec<u8>,
}

/// Which event of a registry was the last when a snapshot was compiled that is applied now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub sequence: u64,
    pub hash: Digest,
    /// Of the snapshot.
    pub generation: u64,
    pub environment: String,
}

/// Keeps what was decided. One recorder belongs to all lanes.
pub trait Recorder: Send + Sync {
    /// On the lane's own thread, once.
    fn lane(&self, lane: usize) -> Box<dyn LaneRecorder>;

    /// May wait for the disk: not for a lane.
    fn served(&self, served: Served);

    /// And this.
    fn registered(&self, registered: Registered);
}
