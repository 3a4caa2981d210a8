//! What of a segment holds, after a process that wrote it has ended somehow: whole frames, in order, each linked to the one
//! before. What follows them is either a torn tail, which nobody was promised, or damage, which must be told.
//!
//! Reads and judges; cuts, moves and reports nothing.

use crate::format::{FormatError, HEADER_BYTES, Hash, Header};
use crate::frames::{Found, Frames, Source, Step};
use crate::merkle::Growing;
use std::io;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    pub header: Header,
    /// Frames that hold, from the first on.
    pub frames: u64,
    /// Where they end.
    pub end: u64,
    /// The number that the next frame would have.
    pub next_seq: u64,
    /// The leaf of the last, or of the header.
    pub last: Hash,
    /// Of header and frames.
    pub root: Hash,
    pub fault: Option<ScanFault>,
}

/// What stands behind the frames that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanFault {
    /// Bytes that are no frame, and no frame after them.
    Torn { at: u64, bytes: u64, error: Option<FormatError> },
    /// A frame stands after what is broken, or stands in a wrong place itself. None: the search for one was given up.
    Corrupt { at: u64, next_valid: Option<u64>, why: Broken },
}

/// How a place is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("{0}")]
    Format(#[from] FormatError),
    #[error("there are zeros before it")]
    Hole,
    #[error("its number is {found}, not {expected}")]
    Sequence { expected: u64, found: u64 },
    #[error("it is not linked to what stands before it")]
    Link,
    #[error("the segment ends before all its frames are there")]
    Ends,
    #[error("records from here to number {} were lost or stand behind damage", .next - 1)]
    Lost { next: u64 },
}

/// Numbers that a frame of this segment may have: no frame is shorter than its head, so the file's length bounds them.
pub(crate) fn seqs_of(header: &Header, bytes: u64) -> std::ops::Range<u64> {
    let most = bytes / crate::format::FRAME_HEAD_BYTES as u64 + 1;
    header.first_seq..header.first_seq.saturating_add(most)
}

/// Reads a segment from its header to its end. The inner error: not even the header holds.
pub fn scan<S: Source>(source: S) -> io::Result<Result<Scan, FormatError>> {
    let mut frames = Frames::new(source, None)?;
    let header = match frames.header()? {
        Ok(header) => header,
        Err(error) => return Ok(Err(error)),
    };
    let seqs = seqs_of(&header, frames.end());
    let mut last = header.leaf();
    let mut tree = Growing::default();
    tree.push(&last);
    let mut next_seq = header.first_seq;
    let mut end = HEADER_BYTES as u64;
    let fault = loop {
        let (at, broken) = match frames.step()? {
            Step::Frame { frame, .. } if frame.seq == next_seq && frame.prev == last => {
                last = frame.leaf();
                tree.push(&last);
                next_seq += 1;
                end = frames.at();
                continue;
            }
            Step::Frame { at, frame } => {
                let (expected, found) = (next_seq, frame.seq);
                let why = if found == expected { Broken::Link } else { Broken::Sequence { expected, found } };
                break Some(ScanFault::Corrupt { at, next_valid: Some(at), why });
            }
            Step::End { at } => (at, None),
            Step::Bad { at, error } => (at, Some(error)),
        };
        let Some(from) = (if broken.is_some() { Some(at) } else { frames.not_zero(at)? }) else { break None };
        let why = broken.map_or(Broken::Hole, Broken::Format);
        // A frame may begin with zeros, or within what looks like the broken one.
        let from = if broken.is_some() { from + 1 } else { from.saturating_sub(15).max(at) };
        break Some(match frames.search(from, seqs)? {
            Found::Nothing => ScanFault::Torn { at, bytes: frames.end().saturating_sub(at), error: broken },
            Found::At(next) => ScanFault::Corrupt { at, next_valid: Some(next), why },
            Found::GaveUp => ScanFault::Corrupt { at, next_valid: None, why },
        });
    };
    let frames = next_seq - header.first_seq;
    Ok(Ok(Scan { header, frames, end, next_seq, last, root: tree.root(), fault }))
}

#[cfg(test)]
mod tests;
