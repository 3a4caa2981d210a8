//! Scans a segment after its writer ended: valid frames, in order, each linked to the previous.
//!
//! After them comes either a torn tail, which was never acknowledged, or damage, which must be reported. Only
//! reads; cuts, moves and reports nothing.

use crate::format::{FormatError, HEADER_BYTES, Hash, Header};
use crate::frames::{Found, Frames, Source, Step};
use crate::merkle::MerkleTree;
use std::io;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    pub header: Header,
    /// Valid frames from the start.
    pub frames: u64,
    /// The offset where they end.
    pub end: u64,
    /// The number of the next frame.
    pub next_seq: u64,
    /// The leaf of the last frame, or of the header.
    pub last: Hash,
    /// The root over header and frames.
    pub root: Hash,
    pub fault: Option<ScanFault>,
}

/// The content after the valid frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanFault {
    /// Bytes that are no frame, with no frame after them.
    Torn { at: u64, bytes: u64, error: Option<FormatError> },
    /// A frame follows the damage or is in a wrong position. `next_valid` is none if the search was
    /// abandoned.
    Corrupt { at: u64, next_valid: Option<u64>, why: Broken },
}

/// The kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("{0}")]
    Format(#[from] FormatError),
    #[error("zeros precede it")]
    Hole,
    #[error("its number is {found}, not {expected}")]
    Sequence { expected: u64, found: u64 },
    #[error("it is not linked to the frame before it")]
    Link,
    #[error("the segment ends before its last frame")]
    Ends,
    #[error("records from here to number {} are lost or follow the damage", .next - 1)]
    Lost { next: u64 },
}

/// The numbers that frames of this segment may have. The file's length bounds them: no frame is shorter than
/// its head.
pub(crate) fn seqs_of(header: &Header, bytes: u64) -> std::ops::Range<u64> {
    let most = bytes / crate::format::FRAME_HEAD_BYTES as u64 + 1;
    header.first_seq..header.first_seq.saturating_add(most)
}

/// Scans a segment from header to end. The inner error means an invalid header.
pub fn scan<S: Source>(source: S) -> io::Result<Result<Scan, FormatError>> {
    let mut frames = Frames::new(source, None)?;
    let header = match frames.header()? {
        Ok(header) => header,
        Err(error) => return Ok(Err(error)),
    };
    let seqs = seqs_of(&header, frames.end());
    let mut last = header.leaf();
    let mut tree: MerkleTree = [last].iter().collect();
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
        // A frame may begin with zeros, or within what looks like the damaged one.
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
