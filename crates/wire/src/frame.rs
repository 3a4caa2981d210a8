//! The five-byte frame of each gRPC message: a compression flag and the big-endian length.
//!
//! Whole bodies and streams of them; the transport delivers the bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use flyball_core::{Fault, FaultKind, Stage};
use prost::Message;

/// Bytes before the message itself.
pub const HEAD_BYTES: usize = 5;

/// Encodes a protobuf message in its frame; `None` if it is too long for one.
pub fn encode_message(message: &impl Message) -> Option<Bytes> {
    let mut frame = BytesMut::with_capacity(HEAD_BYTES + message.encoded_len());
    write(&mut frame, |frame| message.encode(frame).expect("the buffer grows as needed")).ok()?;
    Some(frame.freeze())
}

/// Writes a frame around what `message` appends.
pub(crate) fn write(out: &mut BytesMut, message: impl FnOnce(&mut BytesMut)) -> Result<(), Fault> {
    let start = out.len();
    out.put_bytes(0, HEAD_BYTES);
    message(out);
    let length = u32::try_from(out.len() - start - HEAD_BYTES).map_err(|_too_long| {
        let text = "the response is larger than a gRPC message can be";
        Fault::new(FaultKind::AnswerNotRepresentable, Stage::Respond, text)
    })?;
    out[start + 1..start + HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    pub message: Bytes,
    /// In the coding that the call's head names.
    pub compressed: bool,
}

impl Framed {
    /// The message of a peer that negotiated no coding.
    pub fn plain(self) -> Result<Bytes, Fault> {
        if !self.compressed {
            return Ok(self.message);
        }
        let text = "a gRPC message is compressed, but its call names no grpc-encoding; name it, or send the message uncompressed";
        Err(Fault::malformed(text))
    }
}

/// The one message of a unary body, compressed or not. Shares the body's memory.
pub fn unary(body: &Bytes) -> Result<Framed, Fault> {
    let Some((head, rest)) = body.split_first_chunk() else {
        return Err(Fault::malformed(format!(
            "a gRPC frame starts with {HEAD_BYTES} bytes, but the body has {}",
            body.len()
        )));
    };
    let (compressed, length) = read_head(*head)?;
    if usize::try_from(length).ok() != Some(rest.len()) {
        return Err(Fault::malformed(format!(
            "the gRPC frame says {length} bytes, but {} follow; a unary call has exactly one message",
            rest.len()
        )));
    }
    Ok(Framed { message: body.slice(HEAD_BYTES..), compressed })
}

/// The one message of a unary body, which must not be compressed.
pub fn decode(body: &Bytes) -> Result<Bytes, Fault> {
    unary(body)?.plain()
}

fn read_head([flag, length @ ..]: [u8; HEAD_BYTES]) -> Result<(bool, u32), Fault> {
    match flag {
        0 | 1 => Ok((flag == 1, u32::from_be_bytes(length))),
        flag => {
            Err(Fault::malformed(format!("the compressed flag of a gRPC frame is {flag}; it must be 0 or 1")))
        }
    }
}

/// Splits a stream's body chunks into messages.
///
/// The caller takes the complete messages first: then it buffers one chunk and less than one message.
#[derive(Debug)]
pub struct Frames {
    held: BytesMut,
    bytes_max: usize,
}

impl Frames {
    pub fn new(bytes_max: usize) -> Frames {
        Frames { held: BytesMut::new(), bytes_max }
    }

    pub fn push(&mut self, piece: &[u8]) {
        self.held.extend_from_slice(piece);
    }

    /// Bytes that wait for the rest of their message.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The next complete message. After a fault the position of the next one is unknown.
    pub fn take(&mut self) -> Result<Option<Framed>, Fault> {
        let Some(head) = self.held.first_chunk() else { return Ok(None) };
        let (compressed, length) = read_head(*head)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.bytes_max {
            let text = format!(
                "the message's size of {length} bytes exceeds the maximum allowed value of {} bytes (body_bytes_max)",
                self.bytes_max
            );
            return Err(Fault::new(FaultKind::BodyTooLarge, Stage::Parse, text));
        }
        if self.held.len() - HEAD_BYTES < length {
            return Ok(None);
        }
        self.held.advance(HEAD_BYTES);
        Ok(Some(Framed { message: self.held.split_to(length).freeze(), compressed }))
    }

    /// Call it once the body has ended.
    pub fn finish(&self) -> Result<(), Fault> {
        let text = || format!("the stream ends after {} bytes of a gRPC frame", self.held.len());
        if self.held.is_empty() { Ok(()) } else { Err(Fault::malformed(text())) }
    }
}

#[cfg(test)]
mod tests;
