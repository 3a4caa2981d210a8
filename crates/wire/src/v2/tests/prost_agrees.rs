//! The reader of `ModelInferRequest` agrees with prost's decoder.
//!
//! It rejects what prost cannot decode. What prost decodes is parsed equally or rejected for its content,
//! never for its encoding.

use super::round_trips::{changes, mutate};
use super::{GrpcDialect, fixed, parse};
use crate::proto::inference::infer_parameter::ParameterChoice;
use crate::proto::inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use crate::proto::inference::{InferParameter, InferTensorContents, ModelInferRequest};
use bytes::Bytes;
use flyball_core::{Dialect, InferRequest, Priority};
use proptest::collection::{hash_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use std::borrow::Cow;
use std::collections::HashMap;

type Parameters = HashMap<String, InferParameter>;

fn parameters() -> impl Strategy<Value = Parameters> {
    let choice = prop_oneof![
        any::<bool>().prop_map(ParameterChoice::BoolParam),
        any::<i64>().prop_map(ParameterChoice::Int64Param),
        any::<u64>().prop_map(ParameterChoice::Uint64Param),
        any::<f64>().prop_map(ParameterChoice::DoubleParam),
        "[a-z]{0,3}".prop_map(ParameterChoice::StringParam),
    ];
    let parameter = option::of(choice).prop_map(|parameter_choice| InferParameter { parameter_choice });
    hash_map("timeout|priority|classification|[a-c]", parameter, 0..3)
}

fn contents() -> impl Strategy<Value = InferTensorContents> {
    (vec(any::<i64>(), 0..3), vec(any::<f32>(), 0..2), vec("[a-z]{0,3}", 0..2)).prop_map(
        |(int64_contents, fp32_contents, texts)| InferTensorContents {
            int64_contents,
            fp32_contents,
            bytes_contents: texts.into_iter().map(Bytes::from).collect(),
            ..Default::default()
        },
    )
}

fn input() -> impl Strategy<Value = InferInputTensor> {
    let contents = option::weighted(0.2, contents());
    ("[a-z]{0,3}", "INT8|INT64|BYTES|FP32", vec(0_i64..3, 0..6), parameters(), contents).prop_map(
        |(name, datatype, shape, parameters, contents)| InferInputTensor {
            name,
            datatype,
            shape,
            parameters,
            contents,
        },
    )
}

/// Half of them are valid: one raw tensor of the right length for each input.
fn message() -> impl Strategy<Value = ModelInferRequest> {
    let output = ("[a-z]{1,3}", parameters())
        .prop_map(|(name, parameters)| InferRequestedOutputTensor { name, parameters });
    let raw = vec(vec(any::<u8>(), 0..9), 0..3);
    let parts = (vec(input(), 0..3), vec(output, 0..3), raw, any::<bool>());
    ("[a-zé]{0,4}", "[0-9]{0,2}", "[a-z]{0,2}", parameters(), parts).prop_map(
        |(model_name, model_version, id, parameters, (mut inputs, outputs, mut raw, right))| {
            if right {
                for input in &mut inputs {
                    (input.datatype, input.contents) = ("INT8".into(), None);
                }
                let elements = |input: &InferInputTensor| input.shape.iter().product::<i64>() as usize;
                raw = inputs.iter().map(|input| vec![7; elements(input)]).collect();
            }
            let raw_input_contents = raw.into_iter().map(Bytes::from).collect();
            ModelInferRequest {
                model_name,
                model_version,
                id,
                parameters,
                inputs,
                outputs,
                raw_input_contents,
            }
        },
    )
}

/// Fields that no version of the message has, as a newer client might send them.
fn unknown_fields() -> impl Strategy<Value = Vec<u8>> {
    let field = (15_u32..1000, 0_u8..5, any::<u64>()).prop_map(|(tag, kind, number)| {
        let mut out = Vec::new();
        let key = |wire_type, out: &mut Vec<u8>| encode_key(tag, wire_type, out);
        match kind {
            0 => {
                key(WireType::Varint, &mut out);
                encode_varint(number, &mut out);
            }
            1 => {
                key(WireType::SixtyFourBit, &mut out);
                out.extend(number.to_le_bytes());
            }
            2 => {
                key(WireType::ThirtyTwoBit, &mut out);
                out.extend([1, 2, 3, 4]);
            }
            3 => {
                key(WireType::LengthDelimited, &mut out);
                out.extend([2, 255, 255]);
            }
            _ => {
                key(WireType::StartGroup, &mut out);
                encode_key(1, WireType::Varint, &mut out);
                encode_varint(number, &mut out);
                key(WireType::EndGroup, &mut out);
            }
        }
        out
    });
    vec(field, 0..3).prop_map(|fields| fields.concat())
}

fn agrees(body: &Bytes) -> Result<(), TestCaseError> {
    match (ModelInferRequest::decode(body.clone()), parse(&GrpcDialect::default(), body)) {
        (Err(error), Ok(_)) => prop_assert!(false, "prost refuses this: {error}"),
        (Err(_), Err(_)) => {}
        (Ok(message), Err(fault)) => {
            // prost accepts a map entry whatever its wire type.
            let stricter = fault.text.ends_with("parameters have another wire type than they should");
            let of_the_form = fault.text.contains("the message does not decode");
            prop_assert!(stricter || !of_the_form, "{}: {:?}", fault, message);
        }
        (Ok(message), Ok(request)) => {
            same(&message, &request)?;
            let peeked = GrpcDialect::default().model(body).map(Cow::into_owned);
            prop_assert_eq!(peeked.is_some(), !message.model_name.is_empty());
            prop_assert!(peeked.is_none_or(|model| model == request.model));
        }
    }
    Ok(())
}

fn same(message: &ModelInferRequest, request: &InferRequest) -> Result<(), TestCaseError> {
    prop_assert_eq!(&request.model.name, &message.model_name);
    prop_assert_eq!(request.model.version.as_deref().unwrap_or_default(), &message.model_version);
    prop_assert_eq!(request.id.as_deref().unwrap_or_default(), &message.id);
    let whole = |name: &str| match message.parameters.get(name)?.parameter_choice.as_ref()? {
        ParameterChoice::Int64Param(number) => u64::try_from(*number).ok(),
        ParameterChoice::Uint64Param(number) => Some(*number),
        _ => None,
    };
    let timeout_us = request.timeout.map_or(0, |timeout| timeout.as_micros());
    prop_assert_eq!(timeout_us, u128::from(whole("timeout").unwrap_or(0)));
    prop_assert_eq!(request.priority, whole("priority").map_or(Priority::Normal, Priority::from_v2));
    prop_assert_eq!(request.outputs.len(), message.outputs.len());
    for (output, wanted) in request.outputs.iter().zip(&message.outputs) {
        prop_assert_eq!(&output.name, &wanted.name);
        let choice = |key| wanted.parameters.get(key)?.parameter_choice.as_ref();
        let classes = match choice("classification") {
            Some(ParameterChoice::Int64Param(number)) => u64::try_from(*number).ok(),
            Some(ParameterChoice::Uint64Param(number)) => Some(*number),
            _ => None,
        };
        prop_assert_eq!(u64::from(output.classes), classes.unwrap_or(0).min(u32::MAX.into()));
    }
    prop_assert_eq!(request.inputs.len(), message.inputs.len());
    for (place, (input, wanted)) in request.inputs.iter().zip(&message.inputs).enumerate() {
        prop_assert_eq!(&input.name, &wanted.name);
        prop_assert_eq!(input.datatype.name(), &wanted.datatype);
        prop_assert_eq!(input.shape.as_slice(), wanted.shape.as_slice());
        if let Some(raw) = message.raw_input_contents.get(place).filter(|_| input.datatype.size().is_some()) {
            prop_assert_eq!(fixed(input), raw);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_message_is_read_to_what_prost_decodes(message in message(), before in unknown_fields(), after in unknown_fields()) {
        agrees(&[before, message.encode_to_vec(), after].concat().into())?;
    }

    #[test]
    fn messages_behind_each_other_are_read_as_one(first in message(), second in message()) {
        agrees(&[first.encode_to_vec(), second.encode_to_vec()].concat().into())?;
    }

    #[test]
    fn a_message_that_is_cut_short_is_read_as_prost_reads_it(message in message(), length: prop::sample::Index) {
        let mut body = message.encode_to_vec();
        body.truncate(length.index(body.len() + 1));
        agrees(&body.into())?;
    }

    #[test]
    fn a_changed_message_is_read_as_prost_reads_it(message in message(), changes in changes()) {
        agrees(&mutate(message.encode_to_vec(), &changes))?;
    }

    #[test]
    fn random_bytes_are_read_as_prost_reads_them(body: Vec<u8>) {
        agrees(&body.into())?;
    }
}

#[test]
fn a_shape_in_several_fields_and_contents_in_several_fields_are_read_as_one() {
    let part = |int64_contents| InferTensorContents { int64_contents, ..Default::default() }.encode_to_vec();
    let mut input =
        InferInputTensor { name: "x".into(), datatype: "INT64".into(), ..Default::default() }.encode_to_vec();
    // One axis packed, one not; then two contents of one element each.
    input.extend([0x1a, 1, 1, 0x18, 2]);
    for contents in [part(vec![5]), part(vec![6])] {
        encode_key(5, WireType::LengthDelimited, &mut input);
        encode_varint(contents.len() as u64, &mut input);
        input.extend(contents);
    }
    let mut body = Vec::new();
    encode_key(5, WireType::LengthDelimited, &mut body);
    encode_varint(input.len() as u64, &mut body);
    body.extend(input);
    let request = parse(&GrpcDialect::default(), &body.into()).expect("parses");
    assert_eq!(request.inputs[0].shape.as_slice(), [1, 2]);
    assert_eq!(fixed(&request.inputs[0]), [[5, 0, 0, 0, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0, 0, 0]].concat());
}

#[test]
fn the_last_of_several_texts_counts_wherever_they_stand() {
    // An input and an output whose names are given twice, and an input whose datatype is.
    let input = [0x0a, 1, b'a', 0x0a, 1, b'b', 0x12, 1, b'?', 0x12, 4, b'I', b'N', b'T', b'8', 0x18, 0];
    let output = [0x0a, 1, b'a', 0x0a, 1, b'b'];
    let body = [&[0x2a, input.len() as u8][..], &input, &[0x32, output.len() as u8], &output].concat();
    let request = parse(&GrpcDialect::default(), &body.clone().into()).expect("parses");
    assert_eq!((&*request.inputs[0].name, &*request.outputs[0].name), ("b", "b"));
    agrees(&body.into()).expect("as prost reads it");
}

#[test]
fn a_text_that_is_not_utf8_is_refused_wherever_it_stands() {
    let bodies: [&[u8]; 8] = [
        &[0x0a, 1, 0xff],                         // model_name
        &[0x12, 1, 0xff],                         // model_version
        &[0x1a, 1, 0xff],                         // id
        &[0x22, 3, 0x0a, 1, 0xff],                // a parameter's key
        &[0x22, 5, 0x12, 3, 0x1a, 1, 0xff],       // a parameter's string
        &[0x2a, 3, 0x0a, 1, 0xff],                // an input's name
        &[0x2a, 3, 0x12, 1, 0xff],                // an input's datatype
        &[0x32, 6, 0x0a, 1, b'y', 0x0a, 1, 0xff], // an output's second name
    ];
    for body in bodies {
        let fault = parse(&GrpcDialect::default(), &Bytes::from_static(body)).expect_err("is refused");
        assert!(fault.text.contains("is not UTF-8"), "{body:x?}: {fault}");
        assert!(ModelInferRequest::decode(body).is_err(), "{body:x?}");
    }
}

#[test]
fn a_group_where_a_field_should_be_is_refused() {
    // Inputs (5) as a group, and a group that ends before it began.
    for body in [&[0x2b, 0x2c][..], &[0x2c]] {
        let fault = parse(&GrpcDialect::default(), &Bytes::from_static(body)).expect_err("is refused");
        assert!(fault.text.contains("the message does not decode"), "{fault}");
    }
}
