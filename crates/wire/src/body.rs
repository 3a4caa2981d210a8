//! JSON bodies of requests other than inference: small, and parsed with serde.

use flyball_core::{Fault, FaultKind, Stage};
use serde::Deserialize;

/// More than any of these requests needs; parsing this much takes a lane less than a millisecond.
pub const BYTES_MAX: usize = 64 << 10;

/// Parses a body; an empty one is the type's default. `what` names it in errors: "an index request".
pub(crate) fn read<'b, T: Default + Deserialize<'b>>(body: &'b [u8], what: &str) -> Result<T, Fault> {
    if body.is_empty() { Ok(T::default()) } else { require(body, what, BYTES_MAX) }
}

/// Parses a body that must not be empty.
pub(crate) fn require<'b, T: Deserialize<'b>>(
    body: &'b [u8],
    what: &str,
    bytes_max: usize,
) -> Result<T, Fault> {
    if body.len() > bytes_max {
        let text = format!("the body has {} bytes; {what} has at most {bytes_max}", body.len());
        return Err(Fault::new(FaultKind::BodyTooLarge, Stage::Parse, text));
    }
    // serde would accept a list for a struct, in field order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Fault::malformed(format!("the body is not {what}: it must be a JSON object")));
    }
    serde_json::from_slice(body).map_err(|error| Fault::malformed(format!("the body is not {what}: {error}")))
}
