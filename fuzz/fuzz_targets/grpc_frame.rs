//! No body may panic the reader of gRPC frames; a message that comes out is what went in, and may be parsed.
#![no_main]

use bytes::Bytes;
use flyball_core::Dialect;
use flyball_fuzz::{LIMITS, check, grpc};
use flyball_wire::frame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let Ok(message) = frame::decode(&Bytes::copy_from_slice(body)) else { return };
    assert_eq!(message, &body[frame::HEAD_BYTES..]);
    if let Ok(request) = grpc().parse(&message, &LIMITS, Vec::new()) {
        check(&request);
    }
});
