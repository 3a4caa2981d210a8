//! JSON bodies of requests that are not inference: small, and read with serde.

use flyball_core::{Fault, FaultKind, Stage};
use serde::Deserialize;

/// More than any of these requests needs; reading this much takes a lane less than a millisecond.
pub const BYTES_MAX: usize = 64 << 10;

/// What a body says; an empty one says what the type's default says. `what` names it for a person: "an index request".
pub(crate) fn read<'b, T: Default + Deserialize<'b>>(body: &'b [u8], what: &str) -> Result<T, Fault> {
    if body.is_empty() { Ok(T::default()) } else { demand(body, what, BYTES_MAX) }
}

/// The same where an empty body says nothing.
pub(crate) fn demand<'b, T: Deserialize<'b>>(
    body: &'b [u8],
    what: &str,
    bytes_max: usize,
) -> Result<T, Fault> {
    if body.len() > bytes_max {
        let text = format!("the body has {} bytes; {what} has at most {bytes_max}", body.len());
        return Err(Fault::new(FaultKind::BodyTooLarge, Stage::Parse, text));
    }
    // serde would take a list for a struct, in the order of its fields.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Fault::malformed(format!("the body is not {what}: it must be a JSON object")));
    }
    serde_json::from_slice(body).map_err(|error| Fault::malformed(format!("the body is not {what}: {error}")))
}
