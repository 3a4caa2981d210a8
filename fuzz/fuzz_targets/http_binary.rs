//! No body with raw tensors behind its JSON part may panic the parser. The first two bytes are the length of the JSON part;
//! a length of 0 is a raw binary request, whose body is taken as it is.
#![no_main]

use bytes::Bytes;
use flyball_core::Dialect;
use flyball_fuzz::{LIMITS, check, http};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&length, body)) = input.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_le_bytes(length));
    let body = Bytes::copy_from_slice(body);
    let dialect = http(Some(length));
    dialect.mentions(&body, "priority");
    let Ok(request) = dialect.parse(&body, &LIMITS, Vec::new()) else { return };
    check(&request);
    assert_eq!(request.whole, (length == 0).then_some(body));
});
