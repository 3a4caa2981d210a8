//! Frames between a server and its model hosts: two lengths, a JSON header, then raw bytes.
//!
//! Neither end trusts the other: lengths are checked before allocating, and bytes are read as they come, so
//! that a length alone takes no memory. Knows nothing of the messages' meaning.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};

/// A signature of some ten thousand tensors.
const HEADER_BYTES_MAX: u32 = 4 << 20;
const PREFIX_BYTES: usize = 12;

#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Garbled(String),
}

/// Writes a message and the parts of its payload.
pub(super) fn write(to: &mut impl Write, message: &impl Serialize, payload: &[&[u8]]) -> io::Result<()> {
    let header = serde_json::to_vec(message)?;
    let length = u32::try_from(header.len()).ok().filter(|length| *length <= HEADER_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the header is too large"))?;
    let payload_bytes: u64 = payload.iter().map(|part| part.len() as u64).sum();
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..4].copy_from_slice(&length.to_le_bytes());
    prefix[4..].copy_from_slice(&payload_bytes.to_le_bytes());
    to.write_all(&prefix)?;
    to.write_all(&header)?;
    payload.iter().try_for_each(|part| to.write_all(part))
}

/// Reads a message and its payload; none at the end of the stream.
pub(super) fn read<T: DeserializeOwned>(
    from: &mut impl Read,
    payload_bytes_max: u64,
) -> Result<Option<(T, Vec<u8>)>, FrameError> {
    let prefix = read_up_to(from, PREFIX_BYTES as u64)?;
    if prefix.is_empty() {
        return Ok(None);
    }
    let (header, payload) = prefix.split_first_chunk().ok_or_else(cut_off)?;
    let header_bytes = u32::from_le_bytes(*header);
    let payload_bytes = u64::from_le_bytes(payload.try_into().map_err(|_| cut_off())?);
    if header_bytes > HEADER_BYTES_MAX || payload_bytes > payload_bytes_max {
        let text = format!(
            "a frame of {header_bytes} and {payload_bytes} bytes; {HEADER_BYTES_MAX} and {payload_bytes_max} are allowed"
        );
        return Err(FrameError::Garbled(text));
    }
    let header = read_exactly(from, u64::from(header_bytes))?;
    let message = serde_json::from_slice(&header)
        .map_err(|error| FrameError::Garbled(format!("a header that is not a message: {error}")))?;
    Ok(Some((message, read_exactly(from, payload_bytes)?)))
}

fn read_exactly(from: &mut impl Read, bytes: u64) -> io::Result<Vec<u8>> {
    read_up_to(from, bytes).and_then(|all| if all.len() as u64 == bytes { Ok(all) } else { Err(cut_off()) })
}

/// Grows with the data received, not with the announced length.
fn read_up_to(from: &mut impl Read, bytes: u64) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    from.take(bytes).read_to_end(&mut all)?;
    Ok(all)
}

fn cut_off() -> io::Error {
    ErrorKind::UnexpectedEof.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAYLOAD_MAX: u64 = 1 << 16;

    fn written(message: &Vec<String>, payload: &[u8]) -> Vec<u8> {
        let (first, second) = payload.split_at(payload.len() / 2);
        let mut bytes = Vec::new();
        write(&mut bytes, message, &[first, second]).unwrap();
        bytes
    }

    type Message = (Vec<String>, Vec<u8>);

    fn reading(mut bytes: &[u8]) -> Result<Option<Message>, FrameError> {
        read(&mut bytes, PAYLOAD_MAX)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_every_shorter_part_of_it_is_refused(
            message: Vec<String>, payload in prop::collection::vec(any::<u8>(), 0..300), cut: prop::sample::Index,
        ) {
            let bytes = written(&message, &payload);
            let shorter = cut.index(bytes.len());
            prop_assert_eq!(reading(&bytes).unwrap(), Some((message, payload)));
            match reading(&bytes[..shorter]) {
                Ok(None) => prop_assert_eq!(shorter, 0),
                other => prop_assert!(other.is_err()),
            }
        }

        #[test]
        fn odd_bytes_are_a_message_or_an_error_and_nothing_else(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let _ = reading(&bytes);
        }
    }

    #[test]
    fn a_length_beyond_its_bound_is_refused_before_anything_is_read() {
        for (header, payload) in [(u32::MAX, 0), (2, u64::MAX), (2, PAYLOAD_MAX + 1)] {
            let mut bytes = header.to_le_bytes().to_vec();
            bytes.extend(payload.to_le_bytes());
            assert!(matches!(reading(&bytes), Err(FrameError::Garbled(_))), "{header} {payload}");
        }
    }
}
