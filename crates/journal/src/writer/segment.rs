//! The segment being written: its end, and its durable end. Touches no file.

use crate::format::{HEADER_BYTES, Hash, Header, StartReason, frame_into};
use crate::merkle::MerkleTree;
use std::fs::File;

/// The extent of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) bytes: u64,
    pub(crate) next_seq: u64,
    /// The leaf of the last frame, or of the header.
    pub(crate) last: Hash,
    tree: MerkleTree,
}

#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: File,
    pub(crate) header: Header,
    pub(crate) capacity: u64,
    pub(crate) begun_ns: u64,
    /// Including data that is not on disk yet.
    pub(crate) reach: Extent,
    pub(crate) durable: Extent,
}

/// The facts about the previous segment in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreviousSegment {
    /// Zero: there is none.
    pub(crate) segment: u64,
    pub(crate) last: Hash,
    pub(crate) root: Hash,
    pub(crate) frames: u64,
    pub(crate) next_seq: u64,
}

impl PreviousSegment {
    /// For the first segment of a log.
    pub(crate) fn nothing() -> PreviousSegment {
        let (last, root) = (Hash::default(), Hash::default());
        PreviousSegment { segment: 0, last, root, frames: 0, next_seq: 1 }
    }

    pub(crate) fn header(
        &self,
        began: StartReason,
        node: &crate::node::Node,
        created_unix_ns: i64,
    ) -> Header {
        Header {
            node: node.id,
            boot: node.boot,
            key: node.public,
            segment: self.segment + 1,
            first_seq: self.next_seq,
            prev: self.last,
            prev_root: self.root,
            prev_frames: self.frames,
            created_unix_ns,
            began,
        }
    }
}

impl Segment {
    pub(crate) fn new(file: File, header: Header, capacity: u64, begun_ns: u64) -> Segment {
        let last = header.leaf();
        let tree = [last].iter().collect();
        let durable = Extent { bytes: HEADER_BYTES as u64, next_seq: header.first_seq, last, tree };
        Segment { file, header, capacity, begun_ns, reach: durable.clone(), durable }
    }

    /// Appends a frame to those to be written.
    pub(crate) fn push(&mut self, frames: &mut Vec<u8>, payload: &[u8]) -> u64 {
        let Extent { bytes, next_seq, last, tree } = &mut self.reach;
        let (start, seq) = (frames.len(), *next_seq);
        *last = frame_into(frames, seq, last, payload);
        tree.push(last);
        *bytes += (frames.len() - start) as u64;
        *next_seq += 1;
        seq
    }

    pub(crate) fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.reach.bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reach.next_seq == self.header.first_seq
    }

    /// Everything pushed is on disk.
    pub(crate) fn keep(&mut self) {
        self.durable = self.reach.clone();
    }

    /// Drops what is not on disk.
    pub(crate) fn forget(&mut self) {
        self.reach = self.durable.clone();
    }

    pub(crate) fn durable_frames(&self) -> u64 {
        self.durable.next_seq - self.header.first_seq
    }

    /// As the next header will state it.
    pub(crate) fn as_previous(&self) -> PreviousSegment {
        let Extent { next_seq, last, tree, .. } = &self.durable;
        let (segment, frames) = (self.header.segment, self.durable_frames());
        PreviousSegment { segment, last: *last, root: tree.root(), frames, next_seq: *next_seq }
    }
}
