//! No body over HTTP may panic the parser, and what it takes must have as many elements as its shape says.
#![no_main]

use bytes::Bytes;
use flyball_core::{Dialect, ModelRef, RequestLimits, Tensor, TensorData};
use flyball_wire::HttpDialect;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|case: (Option<u16>, Vec<u8>)| {
    let (header_length, body) = case;
    let dialect = HttpDialect {
        model: ModelRef { name: "m".into(), version: None },
        header_length: header_length.map(usize::from),
    };
    let limits = RequestLimits::for_body(1 << 20);
    let Ok(request) = dialect.parse(&Bytes::from(body), &limits, Vec::new()) else { return };
    for tensor in &request.inputs {
        let elements = Tensor::elements(&tensor.shape).expect("a parsed shape can be counted");
        match (&tensor.data, tensor.datatype.size()) {
            (TensorData::Fixed(bytes), Some(size)) => assert_eq!(bytes.len(), elements * size),
            (TensorData::Strings(texts), None) => assert_eq!(texts.len(), elements),
            _ => panic!("{:?} holds the wrong kind of data", tensor.datatype),
        }
    }
});
