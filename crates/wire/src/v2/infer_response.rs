//! Encodes a `ModelInferResponse` with raw contents, in its gRPC frame, straight into a buffer.

use super::binary;
use crate::fields::{put_length, put_text};
use crate::frame;
use crate::proto::inference::InferParameter;
use crate::proto::inference::infer_parameter::ParameterChoice;
use bytes::BytesMut;
use flyball_core::{Answer, Fault, OutputSlot, Tensor};
use prost::Message;
use prost::encoding::{encoded_len_varint, int64, key_len};

// Field numbers of ModelInferResponse, then of its outputs.
const MODEL_NAME: u32 = 1;
const MODEL_VERSION: u32 = 2;
const ID: u32 = 3;
const OUTPUTS: u32 = 5;
const RAW_CONTENTS: u32 = 6;
const OUTPUT_NAME: u32 = 1;
const OUTPUT_DATATYPE: u32 = 2;
const OUTPUT_SHAPE: u32 = 3;
const OUTPUT_PARAMETERS: u32 = 4;
const ENTRY_KEY: u32 = 1;
const ENTRY_VALUE: u32 = 2;

pub(super) fn write(answer: &Answer<'_>, out: &mut BytesMut) -> Result<(), Fault> {
    out.reserve(size(answer));
    frame::write(out, |out| {
        put_text(MODEL_NAME, answer.model, out);
        put_text(MODEL_VERSION, answer.version, out);
        put_text(ID, answer.id.unwrap_or_default(), out);
        for (tensor, place) in answer.each() {
            put_length(OUTPUTS, output_size(tensor, place), out);
            put_text(OUTPUT_NAME, &tensor.name, out);
            put_text(OUTPUT_DATATYPE, tensor.datatype.name(), out);
            int64::encode_packed(OUTPUT_SHAPE, &tensor.shape, out);
            for (key, value) in region_parameters(tensor, place) {
                put_length(OUTPUT_PARAMETERS, entry_size(key, &value), out);
                put_text(ENTRY_KEY, key, out);
                put_length(ENTRY_VALUE, value.encoded_len(), out);
                value.encode_raw(out);
            }
        }
        for (tensor, place) in answer.each() {
            put_length(RAW_CONTENTS, raw_size(tensor, place), out);
            if place.region.is_none() {
                binary::write(&tensor.data, out);
            }
        }
    })
}

/// The size of the frame in bytes.
pub(super) fn size(answer: &Answer<'_>) -> usize {
    let outputs = answer.each().map(|(tensor, place)| {
        field_size(OUTPUTS, output_size(tensor, place)) + field_size(RAW_CONTENTS, raw_size(tensor, place))
    });
    frame::HEAD_BYTES
        + text_size(MODEL_NAME, answer.model)
        + text_size(MODEL_VERSION, answer.version)
        + text_size(ID, answer.id.unwrap_or_default())
        + outputs.sum::<usize>()
}

fn output_size(tensor: &Tensor, place: &OutputSlot) -> usize {
    let parameters = region_parameters(tensor, place);
    let parameters = parameters.map(|(key, value)| field_size(OUTPUT_PARAMETERS, entry_size(key, &value)));
    parameters.sum::<usize>()
        + text_size(OUTPUT_NAME, &tensor.name)
        + text_size(OUTPUT_DATATYPE, tensor.datatype.name())
        + int64::encoded_len_packed(OUTPUT_SHAPE, &tensor.shape)
}

/// An output in shared memory has an empty raw entry too: clients find an output's entry by its index.
fn raw_size(tensor: &Tensor, place: &OutputSlot) -> usize {
    if place.region.is_some() { 0 } else { binary::size(&tensor.data) }
}

/// The parameters that locate an output in shared memory.
fn region_parameters(
    tensor: &Tensor,
    place: &OutputSlot,
) -> impl Iterator<Item = (&'static str, InferParameter)> + use<> {
    let parameters = place.region.as_ref().map(|span| {
        let number = |number: u64| ParameterChoice::Int64Param(i64::try_from(number).unwrap_or(i64::MAX));
        [
            ("shared_memory_region", ParameterChoice::StringParam(span.region().name.clone())),
            ("shared_memory_offset", number(span.offset())),
            ("shared_memory_byte_size", number(binary::size(&tensor.data) as u64)),
        ]
    });
    let parameter = |(key, choice)| (key, InferParameter { parameter_choice: Some(choice) });
    parameters.into_iter().flatten().map(parameter)
}

fn entry_size(key: &str, value: &InferParameter) -> usize {
    text_size(ENTRY_KEY, key) + field_size(ENTRY_VALUE, value.encoded_len())
}

/// The size of a length-delimited field with its header.
fn field_size(tag: u32, length: usize) -> usize {
    key_len(tag) + encoded_len_varint(length as u64) + length
}

/// Omits an empty text.
fn text_size(tag: u32, text: &str) -> usize {
    if text.is_empty() { 0 } else { field_size(tag, text.len()) }
}
