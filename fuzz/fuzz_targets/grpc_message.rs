//! No message may panic the parser. What it takes, prost takes too, and a glance at the model sees the same one.
#![no_main]

use bytes::Bytes;
use flyball_core::Dialect;
use flyball_fuzz::{LIMITS, check, grpc};
use flyball_wire::proto::inference::ModelInferRequest;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|body: &[u8]| {
    let body = Bytes::copy_from_slice(body);
    let dialect = grpc();
    let model = dialect.model(&body);
    dialect.mentions(&body, "timeout");
    let Ok(request) = dialect.parse(&body, &LIMITS, Vec::new()) else { return };
    check(&request);
    assert!(model.is_none_or(|model| *model == request.model));
    let message = ModelInferRequest::decode(body).expect("prost reads what was taken");
    assert_eq!((message.inputs.len(), message.outputs.len()), (request.inputs.len(), request.outputs.len()));
});
