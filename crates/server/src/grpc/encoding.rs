//! `grpc-encoding`: how a call's messages are compressed. Answers are not: that is always legal, and they are small.

use crate::body::BodyPart;
use crate::coding;
use ::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use flyball_core::{Fault, FaultKind, Stage};
use flyball_wire::coding::Coding;
use flyball_wire::frame::Framed;

static ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// What a refusal of another encoding must name.
pub(super) const ACCEPTED: &str = "identity,gzip,deflate";

pub(super) fn of(headers: &HeaderMap) -> Result<Coding, Fault> {
    let Some(value) = headers.get(&ENCODING) else { return Ok(Coding::Identity) };
    value.to_str().ok().and_then(Coding::named).ok_or_else(|| {
        let text = format!("grpc-encoding {value:?} is not supported; use identity, gzip or deflate");
        Fault::new(FaultKind::Unsupported, Stage::Parse, text)
    })
}

/// A message as it was before its sender compressed it, of so many bytes at most.
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
