//! No JSON body may panic the reader of decisions; what it takes is what its limits allow.
#![no_main]

use bytes::Bytes;
use flyball_core::DecisionDialect;
use flyball_fuzz::{Counted, LIMITS};
use flyball_wire::HttpDecision;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let dialect = HttpDecision { name: "d".into(), idempotency_key: None };
    let mut rows = Counted::default();
    let Ok(ask) = dialect.rows(&Bytes::copy_from_slice(body), &LIMITS, &mut rows) else { return };
    rows.check(ask.single, body.len());
});
