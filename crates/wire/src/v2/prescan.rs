//! Counts what a protobuf request would make us allocate, before it is decoded: two bytes of message can ask for a
//! whole tensor's head, so a body limit alone does not bound memory. Looks at tags and lengths only.

use super::check::{STRING_BYTES, check_tensor_count};
use bytes::Buf;
use flyball_core::{Fault, FaultKind, RequestLimits, Stage};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

// Field numbers of ModelInferRequest, then of its parts.
const PARAMETERS: u32 = 4;
const INPUTS: u32 = 5;
const OUTPUTS: u32 = 6;
const RAW_CONTENTS: u32 = 7;
const INPUT_SHAPE: u32 = 3;
const INPUT_PARAMETERS: u32 = 4;
const INPUT_CONTENTS: u32 = 5;
const OUTPUT_PARAMETERS: u32 = 2;
const BYTES_CONTENTS: u32 = 8;

/// Bytes that one axis takes at most: an int64 as a varint.
const AXIS_BYTES_MAX: usize = 10;

pub(super) fn malformed(error: &DecodeError) -> Fault {
    Fault::malformed(format!("the message is not a ModelInferRequest: {error}"))
}

/// Refuses a message that has more of anything than the limits allow.
pub(super) fn check(message: &[u8], limits: &RequestLimits) -> Result<(), Fault> {
    let mut tally = Tally { limits, inputs: 0, outputs: 0, raw: 0, parameters: 0, strings: 0 };
    each_field(message, |tag, body| match tag {
        INPUTS => tally.input(body),
        OUTPUTS => tally.output(body),
        RAW_CONTENTS => {
            tally.raw += 1;
            check_tensor_count("raw_input_contents", tally.raw, limits)
        }
        PARAMETERS => tally.parameter(),
        _ => Ok(()),
    })
}

struct Tally<'l> {
    limits: &'l RequestLimits,
    inputs: usize,
    outputs: usize,
    raw: usize,
    parameters: usize,
    strings: usize,
}

impl Tally<'_> {
    fn input(&mut self, input: &[u8]) -> Result<(), Fault> {
        self.inputs += 1;
        check_tensor_count("inputs", self.inputs, self.limits)?;
        let rank_max = self.limits.rank_max;
        each_field(input, |tag, body| match tag {
            INPUT_SHAPE if body.len() > rank_max.saturating_mul(AXIS_BYTES_MAX) => Err(Fault::malformed(
                format!("an input's shape has more than the {rank_max} axes that are allowed"),
            )),
            INPUT_PARAMETERS => self.parameter(),
            INPUT_CONTENTS => each_field(body, |tag, _| self.content(tag)),
            _ => Ok(()),
        })
    }

    fn output(&mut self, output: &[u8]) -> Result<(), Fault> {
        self.outputs += 1;
        check_tensor_count("outputs", self.outputs, self.limits)?;
        each_field(output, |tag, _| if tag == OUTPUT_PARAMETERS { self.parameter() } else { Ok(()) })
    }

    fn parameter(&mut self) -> Result<(), Fault> {
        self.parameters += 1;
        check_tensor_count("parameters", self.parameters, self.limits)
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

/// Visits each field of a message with its tag and, where it is length-delimited, its bytes (else none).
fn each_field(
    mut message: &[u8],
    mut visit: impl FnMut(u32, &[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    while message.has_remaining() {
        let (tag, wire_type) = decode_key(&mut message).map_err(|error| malformed(&error))?;
        if wire_type == WireType::LengthDelimited {
            let length = decode_varint(&mut message).map_err(|error| malformed(&error))?;
            let body = usize::try_from(length).ok().and_then(|length| message.split_at_checked(length));
            let Some((body, rest)) = body else {
                return Err(Fault::malformed(format!(
                    "the message is not a ModelInferRequest: field {tag} is cut short"
                )));
            };
            visit(tag, body)?;
            message = rest;
        } else {
            skip_field(wire_type, tag, &mut message, DecodeContext::default())
                .map_err(|error| malformed(&error))?;
            visit(tag, &[])?;
        }
    }
    Ok(())
}
