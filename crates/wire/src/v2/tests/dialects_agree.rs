//! One tensor through every form of a request gives the same bits.
//!
//! JSON, binary, protobuf contents, protobuf raw, and shared memory over HTTP and gRPC.

use super::round_trips::{Case, any_case, in_json};
use super::{GrpcDialect, HttpDialect, http, parse, parse_binary, parse_json};
use crate::proto::inference::infer_parameter::ParameterChoice;
use crate::proto::inference::{InferParameter, InferTensorContents, ModelInferRequest};
use crate::regions::Regions;
use crate::testing::SharedMemory;
use flyball_core::{DataType, Tensor};
use proptest::prelude::*;
use prost::Message;
use std::sync::Arc;

/// The elements in their own list; none for types without a list.
fn contents(case: &Case) -> Option<InferTensorContents> {
    fn each<const SIZE: usize, T>(case: &Case, element: fn([u8; SIZE]) -> T) -> Vec<T> {
        case.elements.iter().map(|(_, le)| element(le.as_slice().try_into().expect("its size"))).collect()
    }
    let mut all = InferTensorContents::default();
    match case.datatype {
        DataType::Bool => all.bool_contents = each(case, |[byte]| byte == 1),
        DataType::Uint8 => all.uint_contents = each(case, |le| u8::from_le_bytes(le).into()),
        DataType::Uint16 => all.uint_contents = each(case, |le| u16::from_le_bytes(le).into()),
        DataType::Uint32 => all.uint_contents = each(case, u32::from_le_bytes),
        DataType::Uint64 => all.uint64_contents = each(case, u64::from_le_bytes),
        DataType::Int8 => all.int_contents = each(case, |le| i8::from_le_bytes(le).into()),
        DataType::Int16 => all.int_contents = each(case, |le| i16::from_le_bytes(le).into()),
        DataType::Int32 => all.int_contents = each(case, i32::from_le_bytes),
        DataType::Int64 => all.int64_contents = each(case, i64::from_le_bytes),
        DataType::Fp32 => all.fp32_contents = each(case, f32::from_le_bytes),
        DataType::Fp64 => all.fp64_contents = each(case, f64::from_le_bytes),
        DataType::Bytes => {
            all.bytes_contents = case.elements.iter().map(|(_, le)| le[4..].to_vec().into()).collect();
        }
        DataType::Fp16 | DataType::Bf16 => return None,
    }
    Some(all)
}

/// The message of a case, with its tensor outside the raw contents.
fn message(case: &Case, change: impl FnOnce(&mut ModelInferRequest)) -> Vec<u8> {
    let mut message = ModelInferRequest::decode(case.message().as_slice()).expect("a message");
    message.raw_input_contents.clear();
    change(&mut message);
    message.encode_to_vec()
}

/// The tensor from a region whose first bytes belong to others.
fn shared(case: &Case) -> [Tensor; 2] {
    let (raw, datatype, shape) = (case.raw(), case.datatype.name(), &case.shape);
    let memory = SharedMemory::holding(&[&[9; 5][..], &raw, &[9; 3]].concat());
    let regions = Arc::new(Regions::default());
    regions.register("r", memory.key(), 2, raw.len() as u64 + 4).expect("registers");
    let dialect = HttpDialect { regions: Some(Arc::clone(&regions)), ..http(None) };
    let body = format!(
        r#"{{"inputs":[{{"name":"x","shape":{shape:?},"datatype":"{datatype}","parameters":{{"shared_memory_region":"r",
            "shared_memory_offset":3,"shared_memory_byte_size":{}}}}}]}}"#,
        raw.len()
    );
    let over_http = parse(&dialect, &body.into()).expect("parses").inputs.remove(0);
    let body = message(case, |message| {
        let parameter = |choice| InferParameter { parameter_choice: Some(choice) };
        let number = |number: usize| parameter(ParameterChoice::Int64Param(number as i64));
        message.inputs[0].parameters = [
            ("shared_memory_region".to_owned(), parameter(ParameterChoice::StringParam("r".into()))),
            ("shared_memory_offset".to_owned(), number(3)),
            ("shared_memory_byte_size".to_owned(), number(raw.len())),
        ]
        .into();
    });
    let over_grpc =
        parse(&GrpcDialect { regions: Some(regions) }, &body.into()).expect("parses").inputs.remove(0);
    [over_http, over_grpc]
}

proptest! {
    #[test]
    fn a_tensor_is_the_same_in_every_form_of_a_request(case in any_case(DataType::ALL.to_vec())) {
        let first = parse_binary(&case.binary_body(), &case.raw()).expect("parses").inputs.remove(0);
        let raw = parse(&GrpcDialect::default(), &case.message().into()).expect("parses").inputs.remove(0);
        prop_assert_eq!(&raw, &first);
        for tensor in shared(&case) {
            prop_assert_eq!(&tensor, &first);
        }
        if let Some(contents) = contents(&case) {
            let body = message(&case, |message| message.inputs[0].contents = Some(contents));
            let typed = parse(&GrpcDialect::default(), &body.into()).expect("parses").inputs.remove(0);
            prop_assert_eq!(&typed, &first);
        }
        if in_json().contains(&case.datatype) {
            for data in [case.flat(), case.nested()] {
                let json = parse_json(&case.json_body(&data)).expect("parses").inputs.remove(0);
                prop_assert_eq!(&json, &first);
            }
        }
    }
}
