//! Parses a `ModelInferRequest` straight from its bytes, without building a message.
//!
//! Names and raw tensors are slices. Limits are checked as fields come: two bytes of message can request a
//! whole tensor header, so a body limit alone does not bound memory.

use super::check::{Axes, STRING_BYTES, check_name, check_output, check_tensor_count};
use super::parameters::{self, EMPTY_FINAL, Known, Parameter, is_reserved};
use super::shared::Shared;
use crate::fields::{Field, Fields, malformed, map_entry};
use crate::proto::inference::InferTensorContents;
use crate::regions::Regions;
use bytes::Bytes;
use bytestring::ByteString;
use flyball_core::{Fault, FaultKind, ModelRef, RequestLimits, RequestedOutput, Stage};
use prost::Message;
use smallvec::SmallVec;
use std::borrow::Cow;

// Field numbers of ModelInferRequest, then of its parts.
const MODEL_NAME: u32 = 1;
const MODEL_VERSION: u32 = 2;
const ID: u32 = 3;
const PARAMETERS: u32 = 4;
const INPUTS: u32 = 5;
const OUTPUTS: u32 = 6;
const RAW_CONTENTS: u32 = 7;
const INPUT_NAME: u32 = 1;
const INPUT_DATATYPE: u32 = 2;
const INPUT_SHAPE: u32 = 3;
const INPUT_PARAMETERS: u32 = 4;
const INPUT_CONTENTS: u32 = 5;
const OUTPUT_NAME: u32 = 1;
const OUTPUT_PARAMETERS: u32 = 2;
const BOOL_PARAM: u32 = 1;
const INT64_PARAM: u32 = 2;
const STRING_PARAM: u32 = 3;
const DOUBLE_PARAM: u32 = 4;
const UINT64_PARAM: u32 = 5;
const BYTES_CONTENTS: u32 = 8;

/// Maximum bytes of one axis: an int64 as a varint.
const AXIS_BYTES_MAX: usize = 10;

/// The message's own fields, and the number of its parts.
#[derive(Default)]
pub(super) struct Head<'m> {
    pub(super) model_name: ByteString,
    pub(super) model_version: ByteString,
    pub(super) id: ByteString,
    pub(super) parameters: Known<'m>,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) raw: usize,
}

#[derive(Default)]
pub(super) struct Input<'m> {
    pub(super) name: ByteString,
    pub(super) datatype: &'m str,
    pub(super) axes: Axes,
    pub(super) shared: Shared<'m>,
    /// Encoded `InferTensorContents`. Protobuf merges several.
    contents: SmallVec<[&'m [u8]; 1]>,
}

pub(super) struct InferRequestReader<'m> {
    message: &'m Bytes,
    limits: &'m RequestLimits,
    parameters: usize,
    strings: usize,
}

impl<'m> InferRequestReader<'m> {
    pub(super) fn new(message: &'m Bytes, limits: &'m RequestLimits) -> InferRequestReader<'m> {
        InferRequestReader { message, limits, parameters: 0, strings: 0 }
    }

    pub(super) fn head(&mut self) -> Result<Head<'m>, Fault> {
        let mut head = Head::default();
        let limits = self.limits;
        let count = |what, count: &mut usize, field: &Field<'_>| {
            field.bytes()?;
            *count += 1;
            check_tensor_count(what, *count, limits)
        };
        for field in Fields::of(self.message) {
            let field = field?;
            match field.tag {
                MODEL_NAME => head.model_name = text(self.message, &field)?,
                MODEL_VERSION => head.model_version = text(self.message, &field)?,
                ID => head.id = text(self.message, &field)?,
                INPUTS => count("inputs", &mut head.inputs, &field)?,
                OUTPUTS => count("outputs", &mut head.outputs, &field)?,
                RAW_CONTENTS => count("raw_input_contents", &mut head.raw, &field)?,
                PARAMETERS => match self.parameter(&field)? {
                    ("timeout", given) => head.parameters.timeout = Some(given),
                    ("priority", given) => head.parameters.priority = Some(given),
                    ("sequence_id" | "sequence_start" | "sequence_end", given) => {
                        head.parameters.in_sequence |= !given.is_nothing();
                    }
                    (name, _) if is_reserved(name) && name != EMPTY_FINAL => {
                        head.parameters.reserved.get_or_insert(Cow::Borrowed(name));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        Ok(head)
    }

    /// The inputs' own messages, in order.
    pub(super) fn inputs(&self) -> impl Iterator<Item = Result<&'m [u8], Fault>> + use<'m> {
        Fields::of(self.message).each(INPUTS)
    }

    /// Raw tensors, in order.
    pub(super) fn raw(&self) -> impl Iterator<Item = Result<Bytes, Fault>> + use<'m> {
        let message = self.message;
        Fields::of(message).each(RAW_CONTENTS).map(|raw| Ok(message.slice_ref(raw?)))
    }

    pub(super) fn outputs(&self) -> impl Iterator<Item = Result<&'m [u8], Fault>> + use<'m> {
        Fields::of(self.message).each(OUTPUTS)
    }

    pub(super) fn input(&mut self, message: &'m [u8]) -> Result<Input<'m>, Fault> {
        let mut input = Input::default();
        for field in Fields::of(message) {
            let field = field?;
            match field.tag {
                INPUT_NAME => input.name = text(self.message, &field)?,
                INPUT_DATATYPE => input.datatype = field.text()?,
                INPUT_SHAPE => self.shape(&field, &mut input.axes)?,
                INPUT_PARAMETERS => share(self.parameter(&field)?, &mut input.shared),
                INPUT_CONTENTS => input.contents.push(field.bytes()?),
                _ => {}
            }
        }
        Ok(input)
    }

    fn shape(&self, field: &Field<'_>, axes: &mut Axes) -> Result<(), Fault> {
        let varints = field.varints()?;
        let rank_max = self.limits.rank_max;
        if varints.packed.len() > rank_max.saturating_mul(AXIS_BYTES_MAX) {
            let text = format!("an input's shape has more than the {rank_max} axes that are allowed");
            return Err(Fault::malformed(text));
        }
        for axis in varints {
            // An int64 is encoded as the varint of its two's complement.
            axes.push(axis?.cast_signed());
        }
        Ok(())
    }

    pub(super) fn output(
        &mut self,
        message: &'m [u8],
        regions: Option<&Regions>,
    ) -> Result<RequestedOutput, Fault> {
        let (mut name, mut shared, mut classes) = (ByteString::new(), Shared::default(), None);
        for field in Fields::of(message) {
            let field = field?;
            match field.tag {
                OUTPUT_NAME => name = text(self.message, &field)?,
                OUTPUT_PARAMETERS => match self.parameter(&field)? {
                    ("classification", given) => classes = Some(given),
                    parameter => share(parameter, &mut shared),
                },
                _ => {}
            }
        }
        check_name("output", &name, self.limits)?;
        let region = shared.span("output", &name, regions)?;
        let classes = parameters::classes(&name, classes.as_ref())?;
        let output = RequestedOutput { name, binary: None, classes, region };
        check_output(&output)?;
        Ok(output)
    }

    /// An entry of a parameter map.
    fn parameter<'f>(&mut self, field: &Field<'f>) -> Result<(&'f str, Parameter<'f>), Fault> {
        self.parameters += 1;
        check_tensor_count("parameters", self.parameters, self.limits)?;
        let wrong_type = |_| malformed("parameters have another wire type than they should");
        entry(field.bytes().map_err(wrong_type)?)
    }

    /// An input's typed contents, if any.
    pub(super) fn contents(&mut self, input: &Input<'_>) -> Result<Option<InferTensorContents>, Fault> {
        let mut contents = None;
        for part in &input.contents {
            for field in Fields::of(part) {
                self.content(field?.tag)?;
            }
            let contents = contents.get_or_insert_with(InferTensorContents::default);
            contents.merge(self.message.slice_ref(part)).map_err(malformed)?;
        }
        Ok(contents)
    }

    fn content(&mut self, tag: u32) -> Result<(), Fault> {
        self.strings += usize::from(tag == BYTES_CONTENTS);
        let bytes_max = self.limits.tensor_bytes_max;
        if self.strings.saturating_mul(STRING_BYTES) <= bytes_max {
            return Ok(());
        }
        Err(Fault::new(
            FaultKind::BodyTooLarge,
            Stage::Parse,
            format!("the request's tensors take more than {bytes_max} bytes; send fewer rows in one request"),
        ))
    }
}

impl Input<'_> {
    pub(super) fn has_contents(&self) -> bool {
        !self.contents.is_empty()
    }
}

/// A text as a slice of the whole message.
fn text(message: &Bytes, field: &Field<'_>) -> Result<ByteString, Fault> {
    let not_utf8 = |error| malformed(format_args!("field {} is not UTF-8: {error}", field.tag));
    ByteString::try_from(message.slice_ref(field.bytes()?)).map_err(not_utf8)
}

fn entry(message: &[u8]) -> Result<(&str, Parameter<'_>), Fault> {
    map_entry(message, Parameter::Other, choose)
}

/// The last field of a oneof counts.
fn choose<'m>(choice: &Field<'m>, before: Parameter<'m>) -> Result<Parameter<'m>, Fault> {
    match choice.tag {
        BOOL_PARAM => choice.varint().map(|flag| Parameter::Flag(flag != 0)),
        INT64_PARAM => {
            let number = choice.varint()?.cast_signed();
            Ok(u64::try_from(number).map_or(Parameter::Other, Parameter::Whole))
        }
        STRING_PARAM => choice.text().map(|text| Parameter::Text(Cow::Borrowed(text))),
        DOUBLE_PARAM => choice.double().map(|_| Parameter::Other),
        UINT64_PARAM => choice.varint().map(Parameter::Whole),
        _ => Ok(before),
    }
}

/// Stores a tensor's parameter if it concerns shared memory.
fn share<'m>((key, given): (&str, Parameter<'m>), shared: &mut Shared<'m>) {
    match key {
        "shared_memory_region" => shared.region = Some(given),
        "shared_memory_offset" => shared.offset = Some(given),
        "shared_memory_byte_size" => shared.byte_size = Some(given),
        _ => {}
    }
}

/// The model that a message names, reading only field headers.
///
/// Tensors are skipped, but all fields are visited, because the last name in a message counts.
pub(super) fn peek_model(message: &Bytes) -> Option<ModelRef> {
    let (mut name, mut version) = (None, None);
    for field in Fields::of(message) {
        let field = field.ok()?;
        match field.tag {
            MODEL_NAME => name = given(text(message, &field).ok()?),
            MODEL_VERSION => version = given(text(message, &field).ok()?),
            _ => {}
        }
    }
    Some(ModelRef { name: name?, version })
}

/// Whether a message has this parameter. True for a malformed one, so that parsing rejects it.
pub(super) fn mentions(message: &Bytes, parameter: &str) -> bool {
    let has = |field: Result<Field<'_>, Fault>| -> Result<bool, Fault> {
        let field = field?;
        Ok(field.tag == PARAMETERS && entry(field.bytes()?)?.0 == parameter)
    };
    Fields::of(message).any(|field| has(field).unwrap_or(true))
}

/// Protobuf cannot distinguish an empty string from none.
pub(super) fn given(text: ByteString) -> Option<ByteString> {
    (!text.is_empty()).then_some(text)
}
