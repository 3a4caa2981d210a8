//! No message may panic the reader of decisions. What it takes, prost takes too.
#![no_main]

use bytes::Bytes;
use flyball_core::DecisionDialect;
use flyball_fuzz::{Counted, LIMITS};
use flyball_wire::GrpcDecision;
use flyball_wire::proto::decisions::DecideRequest;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|body: &[u8]| {
    let body = Bytes::copy_from_slice(body);
    let dialect = GrpcDecision::default();
    let named = dialect.named(&body);
    let mut rows = Counted::default();
    let Ok(ask) = dialect.rows(&body, &LIMITS, &mut rows) else { return };
    named.expect("what is read has a name that can be read");
    rows.check(ask.single, body.len());
    let message = DecideRequest::decode(body).expect("prost reads what was taken");
    assert_eq!(message.decision, dialect.decision());
    assert_eq!(message.rows.len(), if ask.single { 0 } else { rows.rows });
});
