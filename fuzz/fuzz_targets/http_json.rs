//! No JSON body may panic the parser, and what it takes must be what its shapes say.
#![no_main]

use bytes::Bytes;
use flyball_core::Dialect;
use flyball_fuzz::{LIMITS, check, http};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let body = Bytes::copy_from_slice(body);
    let dialect = http(None);
    dialect.mentions(&body, "timeout");
    if let Ok(request) = dialect.parse(&body, &LIMITS, Vec::new()) {
        check(&request);
    }
});
