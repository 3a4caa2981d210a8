//! The bytes of a segment: a header, then frames. Pure functions without file access.
//!
//! `docs/reference/journal-format.md` describes the format for other implementations. All numbers are
//! little-endian. The header is the first link of its segment's chain: the first frame's `prev` is the
//! header's leaf hash, and the header's `prev` is the last leaf of the previous segment.

use crate::note::{hex, unhex};
use ring::digest::{Context, SHA256, digest};
use serde::{Deserialize, Serialize};
use std::fmt;

pub const MAGIC: [u8; 8] = *b"flyballJ";
pub const FORMAT: u32 = 1;
pub const HEADER_BYTES: usize = 256;
/// Length, checksum, sequence number, previous hash.
pub const FRAME_HEAD_BYTES: usize = 48;
/// Maximum payload. Long inputs are blobs, so records are much shorter; a longer length is corrupt.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// A SHA-256 hash, as lower-case hex in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash(pub [u8; 32]);

impl Hash {
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(digest(&SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// The hash of an RFC 6962 leaf whose data is the concatenation of these parts.
    pub fn leaf(parts: &[&[u8]]) -> Hash {
        Hash::prefixed(0, parts)
    }

    /// The hash of an inner node.
    pub fn node(left: &Hash, right: &Hash) -> Hash {
        Hash::prefixed(1, &[&left.0, &right.0])
    }

    fn prefixed(prefix: u8, parts: &[&[u8]]) -> Hash {
        let mut context = Context::new(&SHA256);
        context.update(&[prefix]);
        parts.iter().for_each(|part| context.update(part));
        Hash(context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> String {
        hex(&hash.0)
    }
}

impl TryFrom<String> for Hash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Hash, &'static str> {
        unhex(&text).map(Hash).ok_or("a hash is not lower-case hex of 32 bytes")
    }
}

/// The reason why a segment was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum StartReason {
    /// The log is new.
    First = 1,
    /// The previous one was full or old enough.
    Rotated = 2,
    /// A process opened a log that was closed properly.
    Reopened = 3,
    /// A process opened a log that was not closed.
    Recovered = 4,
    /// The disk failed: this segment repeats the previous one's frames from `first_seq` on, which do not
    /// count there.
    Abandoned = 5,
}

impl StartReason {
    fn of(byte: u8) -> Option<StartReason> {
        use StartReason::{Abandoned, First, Recovered, Reopened, Rotated};
        [First, Rotated, Reopened, Recovered, Abandoned].into_iter().find(|began| *began as u8 == byte)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub node: [u8; 16],
    /// The kernel's boot id. Monotonic times of records compare within one boot.
    pub boot: [u8; 16],
    /// The Ed25519 key that signs checkpoints and gap records from here on.
    pub key: [u8; 32],
    /// Counts from one.
    pub segment: u64,
    /// The number of the first frame, present or future.
    pub first_seq: u64,
    /// The last leaf of the previous segment; zeros for the first.
    pub prev: Hash,
    /// The root of the whole previous segment with its header; zeros for the first.
    pub prev_root: Hash,
    /// Frames that count in the previous segment.
    pub prev_frames: u64,
    pub created_unix_ns: i64,
    pub began: StartReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("it is not a segment of a journal")]
    NoSegment,
    #[error("it has format {0}; this build reads format {FORMAT}")]
    Newer(u32),
    #[error("it ends inside its header, or the header's checksum is wrong")]
    HeaderBroken,
    #[error("the frame ends after the end of the file")]
    Short,
    #[error("the frame's length is {0}, more than the maximum of a record")]
    Length(u32),
    #[error("the frame's checksum is wrong")]
    Checksum,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&MAGIC);
        put(&FORMAT.to_le_bytes());
        put(&[self.began as u8, 0, 0, 0]);
        put(&self.node);
        put(&self.boot);
        put(&self.key);
        put(&self.segment.to_le_bytes());
        put(&self.first_seq.to_le_bytes());
        put(&self.prev.0);
        put(&self.prev_root.0);
        put(&self.prev_frames.to_le_bytes());
        put(&self.created_unix_ns.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Header, FormatError> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            let ours = bytes.len() >= 8 && bytes.starts_with(&MAGIC);
            return Err(if ours { FormatError::HeaderBroken } else { FormatError::NoSegment });
        };
        let mut rest = &bytes[..];
        if take::<8>(&mut rest) != MAGIC {
            return Err(FormatError::NoSegment);
        }
        let format = u32::from_le_bytes(take(&mut rest));
        if format != FORMAT {
            return Err(FormatError::Newer(format));
        }
        let checksum = u32::from_le_bytes(*bytes.last_chunk().expect("a header is longer"));
        if crc32c::crc32c(&bytes[..HEADER_BYTES - 4]) != checksum {
            return Err(FormatError::HeaderBroken);
        }
        let [began, ..] = take::<4>(&mut rest);
        Ok(Header {
            began: StartReason::of(began).ok_or(FormatError::HeaderBroken)?,
            node: take(&mut rest),
            boot: take(&mut rest),
            key: take(&mut rest),
            segment: u64::from_le_bytes(take(&mut rest)),
            first_seq: u64::from_le_bytes(take(&mut rest)),
            prev: Hash(take(&mut rest)),
            prev_root: Hash(take(&mut rest)),
            prev_frames: u64::from_le_bytes(take(&mut rest)),
            created_unix_ns: i64::from_le_bytes(take(&mut rest)),
        })
    }

    /// The `prev` of the first frame.
    pub fn leaf(&self) -> Hash {
        Hash::leaf(&[&self.encode()])
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (part, left) = rest.split_first_chunk().expect("the length was checked");
    *rest = left;
    *part
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub seq: u64,
    pub prev: Hash,
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Decodes the frame at the start of `bytes`. None: zeros (nothing written yet) or the end.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<Frame<'a>>, FormatError> {
        let Some(head) = bytes.first_chunk::<FRAME_HEAD_BYTES>() else {
            return if bytes.iter().all(|byte| *byte == 0) { Ok(None) } else { Err(FormatError::Short) };
        };
        let mut rest = &head[..];
        let length = u32::from_le_bytes(take(&mut rest));
        let checksum = u32::from_le_bytes(take(&mut rest));
        if length == 0 && checksum == 0 && rest.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if length as usize > PAYLOAD_BYTES_MAX {
            return Err(FormatError::Length(length));
        }
        let end = FRAME_HEAD_BYTES + length as usize;
        let checked = bytes.get(8..end).ok_or(FormatError::Short)?;
        if crc32c::crc32c(checked) != checksum {
            return Err(FormatError::Checksum);
        }
        let seq = u64::from_le_bytes(take(&mut rest));
        Ok(Some(Frame { seq, prev: Hash(take(&mut rest)), payload: &bytes[FRAME_HEAD_BYTES..end] }))
    }

    /// The leaf in the segment's tree, and the `prev` of the next frame.
    pub fn leaf(&self) -> Hash {
        Hash::leaf(&[&self.seq.to_le_bytes(), &self.prev.0, self.payload])
    }

    /// The frame's size in its segment, in bytes.
    pub fn length(&self) -> usize {
        FRAME_HEAD_BYTES + self.payload.len()
    }
}

/// Appends a frame and returns its leaf.
pub fn frame_into(out: &mut Vec<u8>, seq: u64, prev: &Hash, payload: &[u8]) -> Hash {
    let start = out.len();
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&seq.to_le_bytes());
    out.extend_from_slice(&prev.0);
    out.extend_from_slice(payload);
    let checksum = crc32c::crc32c(&out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
    Frame { seq, prev: *prev, payload }.leaf()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            node: [1; 16],
            boot: [2; 16],
            key: [3; 32],
            segment: 4,
            first_seq: 5,
            prev: Hash([6; 32]),
            prev_root: Hash([7; 32]),
            prev_frames: 8,
            created_unix_ns: 9,
            began: StartReason::Rotated,
        }
    }

    #[test]
    fn a_header_reads_back_and_any_changed_byte_of_it_is_found() {
        let bytes = header().encode();
        assert_eq!(Header::decode(&bytes), Ok(header()));
        for place in 0..HEADER_BYTES {
            let mut changed = bytes;
            changed[place] ^= 1;
            assert!(Header::decode(&changed).is_err(), "byte {place}");
        }
    }

    #[test]
    fn frames_read_back_one_after_the_other_until_zeros() {
        let mut bytes = Vec::new();
        let first = frame_into(&mut bytes, 1, &header().leaf(), b"one");
        let second = frame_into(&mut bytes, 2, &first, b"");
        bytes.extend_from_slice(&[0; 100]);
        let one = Frame::decode(&bytes).unwrap().unwrap();
        assert_eq!((one.seq, one.payload, one.leaf()), (1, &b"one"[..], first));
        let rest = &bytes[one.length()..];
        let two = Frame::decode(rest).unwrap().unwrap();
        assert_eq!((two.prev, two.leaf()), (first, second));
        assert_eq!(Frame::decode(&rest[two.length()..]), Ok(None));
    }

    #[test]
    fn any_changed_byte_of_a_frame_is_found() {
        let mut bytes = Vec::new();
        frame_into(&mut bytes, 7, &Hash::default(), b"payload");
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0x10;
            assert!(Frame::decode(&changed).is_err(), "byte {place}");
        }
    }
}
