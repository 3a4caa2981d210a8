//! The five-byte frame around each gRPC message: a flag for compression and the length as a big-endian u32.
//! Works on whole bodies; how they arrive is the transport's business.

use bytes::{BufMut, Bytes, BytesMut};
use flyball_core::{Fault, FaultKind, Stage};
use prost::Message;

/// Bytes before the message itself.
pub const HEAD_BYTES: usize = 5;

/// A protobuf message encoded straight into its frame; `None` when it is longer than a frame can say.
pub fn encode_message(message: &impl Message) -> Option<Bytes> {
    let mut frame = BytesMut::with_capacity(HEAD_BYTES + message.encoded_len());
    write(&mut frame, |frame| message.encode(frame).expect("the buffer grows as it must"))?;
    Some(frame.freeze())
}

/// A frame around what `message` appends; `None` when that is longer than a frame can say.
pub(crate) fn write(out: &mut BytesMut, message: impl FnOnce(&mut BytesMut)) -> Option<()> {
    let start = out.len();
    out.put_bytes(0, HEAD_BYTES);
    message(out);
    let length = u32::try_from(out.len() - start - HEAD_BYTES).ok()?;
    out[start + 1..start + HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    Some(())
}

/// The one message of a unary body. Shares the body's memory.
pub fn decode(body: &Bytes) -> Result<Bytes, Fault> {
    let Some((&[compressed, a, b, c, d], rest)) = body.split_first_chunk::<HEAD_BYTES>() else {
        return Err(Fault::malformed(format!(
            "a gRPC frame starts with {HEAD_BYTES} bytes, but the body has {}",
            body.len()
        )));
    };
    match compressed {
        0 => {}
        1 => {
            return Err(Fault::new(
                FaultKind::Unsupported,
                Stage::Parse,
                "compressed gRPC messages are not supported; send them with grpc-encoding identity",
            ));
        }
        flag => {
            return Err(Fault::malformed(format!(
                "the compressed flag of a gRPC frame is {flag}; it must be 0 or 1"
            )));
        }
    }
    let length = u32::from_be_bytes([a, b, c, d]);
    if usize::try_from(length).ok() != Some(rest.len()) {
        return Err(Fault::malformed(format!(
            "the gRPC frame says {length} bytes, but {} follow; a unary call has exactly one message",
            rest.len()
        )));
    }
    Ok(body.slice(HEAD_BYTES..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_that_is_short_long_compressed_or_odd_is_refused_with_its_reason() {
        let cases: [(&[u8], FaultKind, &str); 5] = [
            (&[0, 0, 0], FaultKind::MalformedRequest, "starts with 5 bytes, but the body has 3"),
            (&[0, 0, 0, 0, 2, 7], FaultKind::MalformedRequest, "says 2 bytes, but 1 follow"),
            (&[0, 0, 0, 0, 0, 7], FaultKind::MalformedRequest, "says 0 bytes, but 1 follow"),
            (&[1, 0, 0, 0, 1, 7], FaultKind::Unsupported, "grpc-encoding identity"),
            (&[9, 0, 0, 0, 1, 7], FaultKind::MalformedRequest, "flag of a gRPC frame is 9"),
        ];
        for (body, kind, text) in cases {
            let fault = decode(&Bytes::copy_from_slice(body)).expect_err("must be refused");
            assert_eq!(fault.kind, kind);
            assert!(fault.text.contains(text), "{fault}");
        }
    }

    proptest! {
        #[test]
        fn each_message_comes_out_of_its_frame_as_it_went_in(message: Vec<u8>) {
            let mut frame = BytesMut::new();
            write(&mut frame, |frame| frame.put_slice(&message)).expect("fits");
            let frame = frame.freeze();
            prop_assert_eq!(decode(&frame).expect("decodes"), message);
        }

        #[test]
        fn random_bytes_never_panic(body: Vec<u8>) {
            let _ = decode(&Bytes::from(body));
        }
    }
}
