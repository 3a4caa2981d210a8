//! Reads a journal's directory: its segments and their frames in order.
//!
//! Works next to a live writer: a read sees the state at opening or at the last refresh. Changes nothing and
//! never skips damage: that is an error with its position, and `verify` lists the rest.

mod find;
mod listing;

pub(crate) use crate::folder::segment_path;
pub use find::{FoundRecords, StoredFrame, head_of_record, time_of_record};
pub(crate) use listing::notes_path;
pub use listing::{Durable, Retired, SegmentFacts};

use crate::format::{FormatError, Frame, Hash};
use crate::frames::{Frames, Step};
use crate::segment_scan::Broken;
use listing::Listing;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("{} is not the directory of a journal; give the server's journal_folder", .0.display())]
    NoJournal(PathBuf),
    #[error("{}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error("{} is invalid: {why}; restore it from a copy", path.display())]
    File { path: PathBuf, why: String },
    #[error(
        "the header of segment {segment} is damaged: {cause}; run 'flyball decisions verify' for all damage"
    )]
    Header { segment: u64, cause: FormatError },
    #[error(
        "segment {segment} is damaged at byte {offset}, frame {index}: {why}; run 'flyball decisions verify' for all damage"
    )]
    Broken { segment: u64, index: u64, offset: u64, why: Broken },
    #[error("segment {0} is missing; run 'flyball decisions verify' for all damage")]
    Missing(u64),
    #[error(
        "segment {0} was moved to Parquet or removed by retention; read the list of retired segments again"
    )]
    Moved(u64),
    #[error("the journal has no record {0}")]
    NoRecord(u64),
}

impl LogError {
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> LogError + '_ {
        |cause| LogError::Io { path: path.to_owned(), cause }
    }
}

/// A frame and its position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocatedFrame<'a> {
    pub segment: u64,
    /// The index within its segment, from zero.
    pub index: u64,
    /// The offset of its first byte in the segment's file.
    pub offset: u64,
    pub frame: Frame<'a>,
    pub leaf: Hash,
}

/// The position where reading ended.
#[derive(Debug)]
pub struct ReadPosition {
    /// Continue with this number.
    pub next_seq: u64,
    /// The visitor stopped; otherwise there is nothing more to read.
    pub stopped: bool,
    /// The end offset in the last segment's file.
    pub(crate) offset: u64,
}

pub struct Log {
    folder: PathBuf,
    pub(crate) listing: Listing,
}

impl Log {
    pub fn open(folder: &Path) -> Result<Log, LogError> {
        Ok(Log { folder: folder.to_owned(), listing: Listing::read(folder)? })
    }

    /// Reloads the listing, so that records written since are visible.
    pub fn refresh(&mut self) -> Result<(), LogError> {
        self.listing.refresh(&self.folder)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The id in `node.json`.
    pub fn node(&self) -> Option<[u8; 16]> {
        self.listing.node.map(|(node, _)| node)
    }

    pub fn key(&self) -> Option<[u8; 32]> {
        self.listing.node.map(|(_, key)| key)
    }

    /// The durable end of the log. None: unknown, as in a copy.
    pub fn durable(&self) -> Option<Durable> {
        self.listing.durable
    }

    /// Segments that left the directory, by compaction's list.
    pub fn retired(&self) -> &[Retired] {
        &self.listing.retired
    }

    /// All segments in order. Reads the frames of the last one, since no later header describes it.
    pub fn segments(&self) -> Result<Vec<SegmentFacts>, LogError> {
        self.listing.facts(&self.folder)
    }

    /// The 256 bytes of a segment's header.
    pub fn header(&self, segment: u64) -> Result<[u8; crate::HEADER_BYTES], LogError> {
        let listed = self.listing.segment(segment).ok_or(LogError::Missing(segment))?;
        listed.header().map(crate::Header::encode)
    }

    /// Reads all frames from a number on, in order. `durable_only` skips those that may still be lost.
    pub fn read(
        &self,
        from_seq: u64,
        durable_only: bool,
        mut visit: impl FnMut(&LocatedFrame<'_>) -> ControlFlow<()>,
    ) -> Result<ReadPosition, LogError> {
        let (mut next_seq, mut offset) = (from_seq, 0);
        for place in self.listing.first_with(from_seq)..self.listing.segments.len() {
            self.listing.gap_before(place, from_seq)?;
            let reached = self.read_segment(place, next_seq, durable_only, &mut visit)?;
            if reached.stopped {
                return Ok(reached);
            }
            self.hole_after(place, &reached)?;
            (next_seq, offset) = (reached.next_seq, reached.offset);
        }
        Ok(ReadPosition { next_seq, stopped: false, offset })
    }

    /// Detects a hole: records at a segment's end that do not count though the next segment starts after
    /// them.
    fn hole_after(&self, place: usize, reached: &ReadPosition) -> Result<(), LogError> {
        let ReadPosition { next_seq, offset, .. } = *reached;
        let listed = &self.listing.segments[place];
        match self.listing.next(place) {
            Some(next) if next.first_seq > next_seq => Err(LogError::Broken {
                segment: listed.number,
                index: next.prev_frames,
                offset,
                why: Broken::Lost { next: next.first_seq },
            }),
            _ => Ok(()),
        }
    }

    /// Reads the counting frames of one segment, from a number on.
    pub(crate) fn read_segment(
        &self,
        place: usize,
        from_seq: u64,
        durable_only: bool,
        visit: &mut dyn FnMut(&LocatedFrame<'_>) -> ControlFlow<()>,
    ) -> Result<ReadPosition, LogError> {
        let listed = &self.listing.segments[place];
        let (segment, header) = (listed.number, listed.header()?);
        let path = segment_path(&self.folder, segment);
        let counted = self.listing.counted(place);
        let synced = self.listing.durable_bytes(place);
        let mut frames = frames_at(&path, durable_only.then_some(synced).flatten())?;
        let (mut index, mut prev) = (0, None);
        while counted != Some(index) {
            let seq = header.first_seq + index;
            let broken = |offset, why| LogError::Broken { segment, index, offset, why };
            match frames.step().map_err(LogError::at(&path))? {
                Step::Frame { at, frame } if frame.seq != seq => {
                    return Err(broken(at, Broken::Sequence { expected: seq, found: frame.seq }));
                }
                Step::Frame { .. } if seq < from_seq => (),
                Step::Frame { at, frame } => {
                    if prev.is_some_and(|prev| prev != frame.prev) {
                        return Err(broken(at, Broken::Link));
                    }
                    let leaf = frame.leaf();
                    prev = Some(leaf);
                    if visit(&LocatedFrame { segment, index, offset: at, frame, leaf }).is_break() {
                        return Ok(ReadPosition { next_seq: seq + 1, stopped: true, offset: at });
                    }
                }
                Step::End { at } if self.listing.may_end(place, at) => break,
                // A writer may be writing it.
                Step::Bad { at, .. } if self.listing.may_be_torn(place, at) => break,
                Step::End { at } => return Err(broken(at, Broken::Ends)),
                Step::Bad { at, error } => return Err(broken(at, Broken::Format(error))),
            }
            index += 1;
        }
        let next_seq = from_seq.max(header.first_seq + index);
        Ok(ReadPosition { next_seq, stopped: false, offset: frames.at() })
    }
}

pub(crate) fn frames_at(path: &Path, end: Option<u64>) -> Result<Frames<File>, LogError> {
    let file = File::open(path).map_err(LogError::at(path))?;
    Frames::new(file, end).map_err(LogError::at(path))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::{Sample, record};
