//! No gRPC body may panic the frame reader or the message parser.
#![no_main]

use bytes::Bytes;
use flyball_core::{Dialect, RequestLimits};
use flyball_wire::{GrpcDialect, frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: Vec<u8>| {
    let body = Bytes::from(body);
    let limits = RequestLimits::for_body(1 << 20);
    let _ = GrpcDialect.parse(&body, &limits, Vec::new());
    if let Ok(message) = frame::decode(&body) {
        let _ = GrpcDialect.parse(&message, &limits, Vec::new());
    }
});
