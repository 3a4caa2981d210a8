//! Reads the frames of one segment through a sliding buffer of a few MiB.
//!
//! Reports what is at each offset; checks neither chain nor order. Trusts no length before its checksum.

use crate::format::{FRAME_HEAD_BYTES, FormatError, Frame, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const CHUNK_BYTES: usize = 256 << 10;
/// A search may checksum this many times the bytes that it searches, plus a little for short files.
const SEARCH_FACTOR: u64 = 8;
const SEARCH_LEAST: u64 = 16 << 20;

/// Bytes that can be read at an offset.
pub trait Source {
    fn length(&self) -> io::Result<u64>;

    /// Fills `into`; returns less only at the end.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;
}

impl Source for &[u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match FileExt::read_at(self, &mut into[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// The next item of a segment.
#[derive(Debug, PartialEq)]
pub enum Step<'a> {
    Frame {
        at: u64,
        frame: Frame<'a>,
    },
    /// The end of the file, or zeros: nothing was written here.
    End {
        at: u64,
    },
    /// A bad frame. The reader stays here until it is moved.
    Bad {
        at: u64,
        error: FormatError,
    },
}

/// The result of a search for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    At(u64),
    Nothing,
    /// The search took too long: the bytes were crafted to look like frames.
    GaveUp,
}

pub struct Frames<S> {
    source: S,
    /// Reading ends here.
    end: u64,
    at: u64,
    buffer: Vec<u8>,
    /// The filled part of the buffer, and its offset in the source.
    filled: usize,
    base: u64,
}

impl<S: Source> Frames<S> {
    /// Reads from the first frame to `end`, or to the current end of the source.
    pub fn new(source: S, end: Option<u64>) -> io::Result<Frames<S>> {
        let length = source.length()?;
        let end = end.map_or(length, |end| end.min(length));
        Ok(Frames { source, end, at: HEADER_BYTES as u64, buffer: Vec::new(), filled: 0, base: 0 })
    }

    pub fn header(&mut self) -> io::Result<Result<Header, FormatError>> {
        Ok(Header::decode(self.bytes(0, HEADER_BYTES)?))
    }

    /// The offset of the next step.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The offset where reading ends.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn move_to(&mut self, at: u64) {
        self.at = at;
    }

    pub fn step(&mut self) -> io::Result<Step<'_>> {
        let at = self.at;
        let head = self.bytes(at, FRAME_HEAD_BYTES)?;
        let length = head.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        let least = FRAME_HEAD_BYTES + length.min(PAYLOAD_BYTES_MAX);
        // A good frame is decoded twice: borrows of the buffer must end before the position moves.
        let length = match Frame::decode(self.bytes(at, least)?) {
            Ok(None) => return Ok(Step::End { at }),
            Err(error) => return Ok(Step::Bad { at, error }),
            Ok(Some(frame)) => frame.length(),
        };
        self.at = at + length as u64;
        let (base, buffer) = (self.base, &self.buffer[..self.filled]);
        let start = (at - base) as usize;
        let frame = head_of(&buffer[start..start + length]);
        Ok(Step::Frame { at, frame })
    }

    /// The first non-zero byte at or after `at`.
    pub fn not_zero(&mut self, mut at: u64) -> io::Result<Option<u64>> {
        while at < self.end {
            let bytes = self.bytes(at, 1)?;
            if bytes.is_empty() {
                break;
            }
            if let Some(place) = bytes.iter().position(|byte| *byte != 0) {
                return Ok(Some(at + place as u64));
            }
            at += bytes.len() as u64;
        }
        Ok(None)
    }

    /// The first offset at or after `at` with a whole frame numbered within `seqs`.
    ///
    /// The number is checked before the checksum, because almost no other offset has a plausible one.
    pub fn search(&mut self, mut at: u64, seqs: Range<u64>) -> io::Result<Found> {
        let mut budget = SEARCH_LEAST.max(SEARCH_FACTOR * self.end.saturating_sub(at));
        while at + FRAME_HEAD_BYTES as u64 <= self.end {
            let heads = self.bytes(at, FRAME_HEAD_BYTES)?;
            if heads.len() < FRAME_HEAD_BYTES {
                break;
            }
            let likely = heads.windows(16).position(|head| {
                let length = u32::from_le_bytes(*head.first_chunk().expect("the window has 16 bytes"));
                let seq = u64::from_le_bytes(*head.last_chunk().expect("the window has 16 bytes"));
                length as usize <= PAYLOAD_BYTES_MAX && seqs.contains(&seq)
            });
            let Some(likely) = likely else {
                at += (heads.len() - 15) as u64;
                continue;
            };
            at += likely as u64;
            self.at = at;
            match self.step()? {
                Step::Frame { .. } => {
                    self.at = at;
                    return Ok(Found::At(at));
                }
                Step::End { .. } | Step::Bad { .. } => (),
            }
            let length = self.bytes(at, 4)?.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
            budget = match budget.checked_sub(u64::from(length) + FRAME_HEAD_BYTES as u64) {
                Some(budget) => budget,
                None => return Ok(Found::GaveUp),
            };
            at += 1;
        }
        Ok(Found::Nothing)
    }

    /// The buffered bytes from `from` on: at least `least`, unless the end is nearer.
    fn bytes(&mut self, from: u64, least: usize) -> io::Result<&[u8]> {
        let held = self.base..self.base + self.filled as u64;
        let wanted = (from + least as u64).min(self.end);
        if !held.contains(&from) || wanted > held.end {
            // Buffered bytes move to the front; the rest is read after them.
            let kept = if held.contains(&from) { (from - self.base) as usize..self.filled } else { 0..0 };
            let length = kept.len();
            self.buffer.copy_within(kept, 0);
            let room = least.max(CHUNK_BYTES).min(self.end.saturating_sub(from) as usize);
            if self.buffer.len() < room {
                self.buffer.resize(room, 0);
            }
            self.base = from;
            let read = self.source.read_at(from + length as u64, &mut self.buffer[length..room])?;
            self.filled = length + read;
            if read < room - length {
                // The file became shorter meanwhile: it ends here.
                self.end = self.base + self.filled as u64;
            }
        }
        let start = ((from - self.base) as usize).min(self.filled);
        Ok(&self.buffer[start..self.filled])
    }
}

/// The frame of bytes that were just decoded, without a second checksum.
fn head_of(bytes: &[u8]) -> Frame<'_> {
    let (head, payload) = bytes.split_at(FRAME_HEAD_BYTES);
    let seq = u64::from_le_bytes(*head[8..].first_chunk().expect("a head is longer"));
    let prev = crate::format::Hash(*head.last_chunk().expect("a head is longer"));
    Frame { seq, prev, payload }
}

#[cfg(test)]
mod tests;
