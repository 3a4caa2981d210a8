//! Records taken from the rings that are not on disk yet.
//!
//! Holds the frames, so that they can be written again elsewhere, and the callers to notify about the result.

use crate::counts::KINDS;
use crate::format::Frame;
use flyball_core::{JournalRecord, RecordKind, Served, Unavailable};
use std::sync::mpsc::SyncSender;

pub(super) type Reply = SyncSender<Result<u64, Unavailable>>;

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) frames: Vec<u8>,
    /// The bytes that the file already has.
    pub(super) written: usize,
    pub(super) records: u64,
    pub(super) kinds: [u64; KINDS],
    /// Decisions whose response does not wait for the disk.
    pub(super) answered: u64,
    /// Records other than decisions, by kind.
    pub(super) others: [u64; RecordKind::ALL.len()],
    /// A record may refer to keys or blobs, which must be on disk first.
    pub(super) side_files: bool,
    /// A caller waits for one of them.
    pub(super) urgent: bool,
    pub(super) replies: Vec<(u64, Reply)>,
    /// Documents to write again if the group is lost.
    pub(super) served: Vec<Served>,
    /// When the oldest came to its ring; zero: none.
    pub(super) since_ns: u64,
}

impl Group {
    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn note(&mut self, kind: usize, since_ns: u64) {
        self.records += 1;
        self.kinds[kind] += 1;
        if self.since_ns == 0 {
            self.since_ns = since_ns;
        }
    }

    pub(super) fn note_record(&mut self, record: &JournalRecord, since_ns: u64) {
        self.note(record.kind as usize, since_ns);
        self.urgent |= record.sync;
        self.side_files = true;
        // Serving documents are not lost with the group: they are written again.
        if !record.sync && record.kind != RecordKind::Served {
            let decision = crate::shared::is_decision(record.kind);
            *(if decision { &mut self.answered } else { &mut self.others[record.kind as usize] }) += 1;
        }
    }

    /// Empties the group and keeps its buffers.
    pub(super) fn clear(&mut self) {
        let Group { frames, replies, .. } = std::mem::take(self);
        *self = Group { frames, replies, ..Group::default() };
        self.frames.clear();
        self.replies.clear();
    }

    pub(super) fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.frames[..];
        std::iter::from_fn(move || {
            let frame = Frame::decode(rest).ok().flatten()?;
            rest = &rest[frame.length()..];
            Some(frame.payload)
        })
    }
}
