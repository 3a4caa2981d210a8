//! Walks the frames of one segment through a sliding buffer, so that a segment of any length takes a few MiB of memory.
//!
//! Says what stands where; judges neither chain nor order. No length that it reads is trusted before the checksum is.

use crate::format::{FRAME_HEAD_BYTES, FormatError, Frame, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const CHUNK_BYTES: usize = 256 << 10;
/// The search for a later frame may check this many times what it searches through, and a little more for short files.
const SEARCH_FACTOR: u64 = 8;
const SEARCH_LEAST: u64 = 16 << 20;

/// Bytes that can be read at a place.
pub trait Source {
    fn length(&self) -> io::Result<u64>;

    /// Fills `into` as far as there is something; shorter only at the end.
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

/// What stands at the next place.
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
    /// The walk stays here until it is moved.
    Bad {
        at: u64,
        error: FormatError,
    },
}

/// The outcome of a search for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    At(u64),
    Nothing,
    /// It would have taken too long: what is here was made to look like frames.
    GaveUp,
}

pub struct Frames<S> {
    source: S,
    /// Nothing is read from here on.
    end: u64,
    at: u64,
    buffer: Vec<u8>,
    /// What of the buffer is filled, and where in the source it begins.
    filled: usize,
    base: u64,
}

impl<S: Source> Frames<S> {
    /// From the first frame to `end`, or to where the source ends now.
    pub fn new(source: S, end: Option<u64>) -> io::Result<Frames<S>> {
        let length = source.length()?;
        let end = end.map_or(length, |end| end.min(length));
        Ok(Frames { source, end, at: HEADER_BYTES as u64, buffer: Vec::new(), filled: 0, base: 0 })
    }

    pub fn header(&mut self) -> io::Result<Result<Header, FormatError>> {
        Ok(Header::decode(self.bytes(0, HEADER_BYTES)?))
    }

    /// Where the next step will be.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Where reading ends.
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
        // Decoded twice where the frame is good: borrows of the buffer end before the place is moved.
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

    /// The first byte from `at` on that is not zero.
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

    /// The first place from `at` on where a whole frame stands whose number is among `seqs`.
    ///
    /// The number is looked at before the checksum, because almost no other place has a likely one.
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

    /// All that is at hand from `from` on: at least so many bytes, unless the end is nearer.
    fn bytes(&mut self, from: u64, least: usize) -> io::Result<&[u8]> {
        let held = self.base..self.base + self.filled as u64;
        let wanted = (from + least as u64).min(self.end);
        if !held.contains(&from) || wanted > held.end {
            // What is here already moves to the front; the rest is read behind it.
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
                // The file became shorter under way: it ends here.
                self.end = self.base + self.filled as u64;
            }
        }
        let start = ((from - self.base) as usize).min(self.filled);
        Ok(&self.buffer[start..self.filled])
    }
}

/// Of bytes that were decoded just now, so that their checksum need not be made again.
fn head_of(bytes: &[u8]) -> Frame<'_> {
    let (head, payload) = bytes.split_at(FRAME_HEAD_BYTES);
    let seq = u64::from_le_bytes(*head[8..].first_chunk().expect("a head is longer"));
    let prev = crate::format::Hash(*head.last_chunk().expect("a head is longer"));
    Frame { seq, prev, payload }
}

#[cfg(test)]
mod tests;
