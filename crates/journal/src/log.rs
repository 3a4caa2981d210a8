//! A journal's folder, read: which segments there are, and their frames in order. Beside a live writer too: what is read is
//! what was there when it was opened, or refreshed.
//!
//! Changes nothing, and never passes over what is broken: that is an error with its place, and `verify` tells the rest.

mod find;
mod listing;

pub(crate) use crate::folder::segment_path;
pub use find::{Finds, Kept, head_of_record, time_of_record};
pub(crate) use listing::notes_path;
pub use listing::{Durable, Retired, SegmentFacts};

use crate::format::{FormatError, Frame, Hash};
use crate::frames::{Frames, Step};
use crate::recover::Broken;
use listing::Listing;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("{} is no folder of a journal; give the one that the server's journal_folder names", .0.display())]
    NoJournal(PathBuf),
    #[error("{}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error("{} is not as it must be: {why}; restore it from a copy", path.display())]
    File { path: PathBuf, why: String },
    #[error(
        "the header of segment {segment} is broken: {cause}; 'flyball decisions verify' tells all that is"
    )]
    Header { segment: u64, cause: FormatError },
    #[error(
        "segment {segment} is broken at byte {offset}, frame {index}: {why}; 'flyball decisions verify' tells all that is"
    )]
    Broken { segment: u64, index: u64, offset: u64, why: Broken },
    #[error("segment {0} is missing; 'flyball decisions verify' tells all that is")]
    Missing(u64),
    #[error(
        "segment {0} was moved to Parquet, or its time was over; look at the list of retired segments again"
    )]
    Moved(u64),
    #[error("there is no record {0} in the journal")]
    NoRecord(u64),
}

impl LogError {
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> LogError + '_ {
        |cause| LogError::Io { path: path.to_owned(), cause }
    }
}

/// A frame and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed<'a> {
    pub segment: u64,
    /// Among the frames of its segment, from nothing on.
    pub index: u64,
    /// Of its first byte, in the segment's file.
    pub offset: u64,
    pub frame: Frame<'a>,
    pub leaf: Hash,
}

/// How far reading came.
#[derive(Debug)]
pub struct Reached {
    /// Read on from this number.
    pub next_seq: u64,
    /// The visitor had enough; otherwise nothing more is there.
    pub stopped: bool,
    /// Where in the last segment's file it ended.
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

    /// Looks again: what was written since is there then.
    pub fn refresh(&mut self) -> Result<(), LogError> {
        self.listing.refresh(&self.folder)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// As `node.json` says it.
    pub fn node(&self) -> Option<[u8; 16]> {
        self.listing.node.map(|(node, _)| node)
    }

    pub fn key(&self) -> Option<[u8; 32]> {
        self.listing.node.map(|(_, key)| key)
    }

    /// Up to where the log is known to be on the disk. None: nobody noted it, as in a copy.
    pub fn durable(&self) -> Option<Durable> {
        self.listing.durable
    }

    /// Segments that left the folder, by the list that compaction keeps of them.
    pub fn retired(&self) -> &[Retired] {
        &self.listing.retired
    }

    /// In order. Of the last one, which nothing follows, the frames are read.
    pub fn segments(&self) -> Result<Vec<SegmentFacts>, LogError> {
        self.listing.facts(&self.folder)
    }

    /// The 256 bytes that a segment begins with.
    pub fn header(&self, segment: u64) -> Result<[u8; crate::HEADER_BYTES], LogError> {
        let listed = self.listing.segment(segment).ok_or(LogError::Missing(segment))?;
        listed.header().map(crate::Header::encode)
    }

    /// All frames from a number on, in order. `durable_only`: not what may still be lost.
    pub fn read(
        &self,
        from_seq: u64,
        durable_only: bool,
        mut visit: impl FnMut(&Placed<'_>) -> ControlFlow<()>,
    ) -> Result<Reached, LogError> {
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
        Ok(Reached { next_seq, stopped: false, offset })
    }

    /// Records of a segment that do not count, though the next one begins behind them: its writer has found damage here.
    fn hole_after(&self, place: usize, reached: &Reached) -> Result<(), LogError> {
        let Reached { next_seq, offset, .. } = *reached;
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

    /// The frames of one segment that count, from a number on.
    pub(crate) fn read_segment(
        &self,
        place: usize,
        from_seq: u64,
        durable_only: bool,
        visit: &mut dyn FnMut(&Placed<'_>) -> ControlFlow<()>,
    ) -> Result<Reached, LogError> {
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
                    if visit(&Placed { segment, index, offset: at, frame, leaf }).is_break() {
                        return Ok(Reached { next_seq: seq + 1, stopped: true, offset: at });
                    }
                }
                Step::End { at } if self.listing.may_end(place, at) => break,
                // Somebody may be writing it.
                Step::Bad { at, .. } if self.listing.may_be_torn(place, at) => break,
                Step::End { at } => return Err(broken(at, Broken::Ends)),
                Step::Bad { at, error } => return Err(broken(at, Broken::Format(error))),
            }
            index += 1;
        }
        let next_seq = from_seq.max(header.first_seq + index);
        Ok(Reached { next_seq, stopped: false, offset: frames.at() })
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
