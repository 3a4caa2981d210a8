//! `grpc-encoding`: decompresses messages. Responses are small and never compressed, which is always legal.

use crate::body::BodyPart;
use crate::coding;
use ::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use flyball_core::{Fault, FaultKind, Stage};
use flyball_wire::coding::Coding;
use flyball_wire::frame::Framed;

static ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// The encodings that a refusal must name.
pub(super) const ACCEPTED: &str = "identity,gzip,deflate";

pub(super) fn of(headers: &HeaderMap) -> Result<Coding, Fault> {
    let Some(value) = headers.get(&ENCODING) else { return Ok(Coding::Identity) };
    value.to_str().ok().and_then(Coding::named).ok_or_else(|| {
        let text = format!("grpc-encoding {value:?} is not supported; use identity, gzip or deflate");
        Fault::new(FaultKind::Unsupported, Stage::Parse, text)
    })
}

/// The decompressed message, of at most `bytes_max` bytes.
pub(super) async fn opened(
    framed: Framed,
    coding: Coding,
    bytes_max: usize,
    part: &BodyPart<'_>,
) -> Result<Bytes, Fault> {
    if coding == Coding::Identity || !framed.compressed {
        return framed.plain();
    }
    coding::inflated(coding, framed.message, bytes_max, part).await
}
