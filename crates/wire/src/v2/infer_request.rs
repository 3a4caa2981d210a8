//! Reads a `ModelInferRequest` straight from its bytes: names and raw tensors are slices of them, and no message is
//! built on the way. Limits are checked as fields are met: two bytes of message can ask for a whole tensor's head, so a
//! body limit alone does not bound memory.

use super::check::{Axes, STRING_BYTES, check_output, check_tensor_count};
use super::fields::{Field, Fields, malformed};
use super::parameters::Number;
use crate::proto::inference::InferTensorContents;
use bytes::Bytes;
use bytestring::ByteString;
use flyball_core::{Fault, FaultKind, RequestLimits, RequestedOutput, Stage};
use prost::Message;
use smallvec::SmallVec;

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
const ENTRY_KEY: u32 = 1;
const ENTRY_VALUE: u32 = 2;
const BOOL_PARAM: u32 = 1;
const INT64_PARAM: u32 = 2;
const STRING_PARAM: u32 = 3;
const DOUBLE_PARAM: u32 = 4;
const UINT64_PARAM: u32 = 5;
const BYTES_CONTENTS: u32 = 8;

/// Bytes that one axis takes at most: an int64 as a varint.
const AXIS_BYTES_MAX: usize = 10;

/// What stands in the message itself, and how many parts it has.
#[derive(Default)]
pub(super) struct Head {
    pub(super) model_name: ByteString,
    pub(super) model_version: ByteString,
    pub(super) id: ByteString,
    pub(super) timeout: Option<Number>,
    pub(super) priority: Option<Number>,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) raw: usize,
}

#[derive(Default)]
pub(super) struct Input<'m> {
    pub(super) name: ByteString,
    pub(super) datatype: &'m str,
    pub(super) axes: Axes,
    pub(super) in_shared_memory: bool,
    /// Encoded `InferTensorContents`. Protobuf merges them, where there are several.
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

    pub(super) fn head(&mut self) -> Result<Head, Fault> {
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
                    ("timeout", number) => head.timeout = Some(number),
                    ("priority", number) => head.priority = Some(number),
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
                INPUT_PARAMETERS => {
                    input.in_shared_memory |= self.parameter(&field)?.0 == "shared_memory_region";
                }
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
            // An int64 travels as the varint of its two's complement.
            axes.push(axis?.cast_signed());
        }
        Ok(())
    }

    pub(super) fn output(&mut self, message: &[u8]) -> Result<RequestedOutput, Fault> {
        let (mut name, mut in_shared_memory, mut classified) = (ByteString::new(), false, false);
        for field in Fields::of(message) {
            let field = field?;
            match field.tag {
                OUTPUT_NAME => name = text(self.message, &field)?,
                OUTPUT_PARAMETERS => match self.parameter(&field)?.0 {
                    "shared_memory_region" => in_shared_memory = true,
                    "classification" => classified = true,
                    _ => {}
                },
                _ => {}
            }
        }
        check_output(&name, in_shared_memory, classified, self.limits)?;
        Ok(RequestedOutput { name, binary: None })
    }

    /// An entry of a map of parameters: its key, and its value where that is a whole number.
    fn parameter<'f>(&mut self, field: &Field<'f>) -> Result<(&'f str, Number), Fault> {
        self.parameters += 1;
        check_tensor_count("parameters", self.parameters, self.limits)?;
        let wrong_type = |_| malformed("parameters have another wire type than they should");
        entry(field.bytes().map_err(wrong_type)?)
    }

    /// An input's typed contents, where it has any.
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

fn entry(message: &[u8]) -> Result<(&str, Number), Fault> {
    let (mut key, mut number) = ("", Number::Other);
    for field in Fields::of(message) {
        let field = field?;
        match field.tag {
            ENTRY_KEY => key = field.text()?,
            ENTRY_VALUE => {
                for choice in Fields::of(field.bytes()?) {
                    number = choose(&choice?, number)?;
                }
            }
            _ => {}
        }
    }
    Ok((key, number))
}

/// The last field of a oneof is the one that counts.
fn choose(choice: &Field<'_>, before: Number) -> Result<Number, Fault> {
    match choice.tag {
        BOOL_PARAM => choice.varint().map(|_| Number::Other),
        INT64_PARAM => {
            let number = choice.varint()?.cast_signed();
            Ok(u64::try_from(number).map_or(Number::Other, Number::Whole))
        }
        STRING_PARAM => choice.text().map(|_| Number::Other),
        DOUBLE_PARAM => choice.is_fixed64().map(|()| Number::Other),
        UINT64_PARAM => choice.varint().map(Number::Whole),
        _ => Ok(before),
    }
}
