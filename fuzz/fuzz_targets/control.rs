//! No body of a control request may panic its reader: JSON over HTTP, and the messages of reflection, whose answers are made
//! from what was asked.
#![no_main]

use flyball_wire::proto::reflection::ServerReflectionRequest;
use flyball_wire::reflection;
use flyball_wire::repository::{ControlRequest, IndexRequest};
use flyball_wire::shared_memory::RegisterRequest;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|body: &[u8]| {
    let _ = IndexRequest::from_json(body);
    let _ = ControlRequest::from_json(body);
    let _ = RegisterRequest::from_json(body);
    if let Ok(request) = ServerReflectionRequest::decode(body) {
        reflection::answer(request).encode_to_vec();
    }
});
