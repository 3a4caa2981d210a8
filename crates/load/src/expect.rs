//! The expected response of a row, and its check.
//!
//! A correct response is remembered, and later ones with the same bytes around their id are correct as well;
//! only others are parsed, because parsing would slow the generator down.

use crate::tensor::encode;
use flyball_wire::proto::inference::ModelInferResponse;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::RefCell;

#[derive(Debug)]
pub(crate) struct ExpectedOutput {
    pub(crate) name: String,
    pub(crate) datatype: String,
    pub(crate) shape: Vec<i64>,
    pub(crate) raw: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Expected {
    /// `None`: any response to this request is correct.
    outputs: Option<Vec<ExpectedOutput>>,
    /// For a body other than V2: the text that its response must contain, and the only check.
    text: Option<Box<str>>,
}

/// The last correct response body of this row, without its id. Local to one thread.
#[derive(Debug, Default)]
pub(crate) struct Verified(RefCell<Option<Template>>);

#[derive(Debug)]
struct Template {
    before_id: Box<[u8]>,
    /// After the id; its first `json_after_id` bytes belong to the JSON.
    after_id: Box<[u8]>,
    json_after_id: usize,
}

/// The body of a response over HTTP; raw tensors follow the JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpBody<'t> {
    pub(crate) bytes: &'t [u8],
    pub(crate) json_length: usize,
}

#[derive(Deserialize)]
struct Answer<'t> {
    #[serde(borrow, default)]
    id: Option<&'t RawValue>,
    #[serde(borrow, default)]
    outputs: Option<&'t RawValue>,
}

#[derive(Deserialize)]
struct Output<'t> {
    #[serde(borrow)]
    name: Cow<'t, str>,
    #[serde(borrow)]
    datatype: Cow<'t, str>,
    shape: Vec<i64>,
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    parameters: Option<OutputParameters>,
}

#[derive(Deserialize)]
struct OutputParameters {
    #[serde(default)]
    binary_data_size: Option<usize>,
}

impl Verified {
    fn knows(&self, id: &str, body: HttpBody<'_>) -> bool {
        let known = self.0.borrow();
        let Some(Template { before_id, after_id, json_after_id }) = &*known else { return false };
        body.json_length == before_id.len() + id.len() + json_after_id
            && body.bytes.len() == before_id.len() + id.len() + after_id.len()
            && body.bytes.starts_with(before_id)
            && body.bytes.ends_with(after_id)
            && body.bytes[before_id.len()..].starts_with(id.as_bytes())
    }

    /// `quoted_id` is a part of the body, quotes included.
    fn remember(&self, quoted_id: &str, body: HttpBody<'_>) {
        let start = quoted_id.as_ptr().addr() - body.bytes.as_ptr().addr() + 1;
        let end = start + quoted_id.len() - 2;
        *self.0.borrow_mut() = Some(Template {
            before_id: body.bytes[..start].into(),
            after_id: body.bytes[end..].into(),
            json_after_id: body.json_length - end,
        });
    }
}

impl Expected {
    pub(crate) fn new(outputs: Option<Vec<ExpectedOutput>>) -> Expected {
        Expected { outputs, text: None }
    }

    pub(crate) fn text(text: String) -> Expected {
        Expected { outputs: None, text: Some(text.into()) }
    }

    /// Checks a response over HTTP; the error names the difference. `foreign` responses may lack the id if
    /// nothing else is expected.
    pub(crate) fn check_http(
        &self,
        id: &str,
        body: HttpBody<'_>,
        foreign: bool,
        verified: &Verified,
    ) -> Result<(), String> {
        if let Some(text) = &self.text {
            let held = std::str::from_utf8(body.bytes).is_ok_and(|answer| answer.contains(&**text));
            return if held { Ok(()) } else { Err(format!("the answer does not contain {text}")) };
        }
        if verified.knows(id, body) {
            return Ok(());
        }
        let lenient = foreign && self.outputs.is_none();
        let (json, raw) = body.bytes.split_at_checked(body.json_length).ok_or_else(|| {
            format!("the answer's JSON has {} bytes, its body {}", body.json_length, body.bytes.len())
        })?;
        let answer: Answer<'_> = match serde_json::from_slice(json) {
            Ok(answer) => answer,
            Err(_) if lenient => return Ok(()),
            Err(error) => return Err(format!("the answer is not a JSON object: {error}")),
        };
        let quoted_id = match answer.id.map(RawValue::get) {
            None if lenient => return Ok(()),
            None => return Err(format!("the answer to id {id} has no id")),
            Some(echo) if echo.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(id) => echo,
            Some(echo) => return Err(format!("the answer to id {id} has id {echo}")),
        };
        if let Some(expected) = &self.outputs {
            compare_http(expected, answer.outputs.map_or("", RawValue::get), raw)?;
        }
        verified.remember(quoted_id, body);
        Ok(())
    }

    /// Checks a response over gRPC, whose outputs are raw.
    pub(crate) fn check_message(&self, id: &str, message: &ModelInferResponse) -> Result<(), String> {
        if message.id != id {
            return Err(format!("the answer to id {id} has id {:?}", message.id));
        }
        let Some(expected) = &self.outputs else { return Ok(()) };
        for wanted in expected {
            let place = message.outputs.iter().position(|output| output.name == wanted.name);
            let Some(place) = place else { return Err(missing(wanted)) };
            let output = &message.outputs[place];
            let raw = message.raw_output_contents.get(place).map_or(&[][..], |raw| raw);
            compare(wanted, &output.datatype, &output.shape, raw)?;
        }
        Ok(())
    }
}

fn compare_http(expected: &[ExpectedOutput], text: &str, raw: &[u8]) -> Result<(), String> {
    let outputs: Vec<Output<'_>> =
        serde_json::from_str(text).map_err(|error| format!("the answer's outputs do not parse: {error}"))?;
    let elements = elements(&outputs, raw)?;
    for wanted in expected {
        let place = outputs.iter().position(|output| output.name == wanted.name);
        let place = place.ok_or_else(|| missing(wanted))?;
        compare(wanted, &outputs[place].datatype, &outputs[place].shape, &elements[place])?;
    }
    Ok(())
}

/// The raw form of each output, from its JSON or from the following bytes, in order.
fn elements<'t>(outputs: &[Output<'_>], mut raw: &'t [u8]) -> Result<Vec<Cow<'t, [u8]>>, String> {
    let mut found = Vec::new();
    for output in outputs {
        let size = output.parameters.as_ref().and_then(|parameters| parameters.binary_data_size);
        found.push(match (size, &output.data) {
            (Some(size), None) => {
                let (own, rest) = raw.split_at_checked(size).ok_or_else(|| {
                    format!("output '{}' has {size} raw bytes, but {} are left", output.name, raw.len())
                })?;
                raw = rest;
                Cow::Borrowed(own)
            }
            (None, Some(data)) => Cow::Owned(encode(&output.datatype, data)?),
            _ => return Err(format!("output '{}' needs exactly one of data and raw bytes", output.name)),
        });
    }
    if raw.is_empty() { Ok(found) } else { Err(format!("{} raw bytes belong to no output", raw.len())) }
}

fn compare(wanted: &ExpectedOutput, datatype: &str, shape: &[i64], raw: &[u8]) -> Result<(), String> {
    let name = &wanted.name;
    if datatype != wanted.datatype || shape != wanted.shape {
        return Err(format!(
            "output '{name}' is {datatype} {shape:?}, expected {} {:?}",
            wanted.datatype, wanted.shape
        ));
    }
    if raw == wanted.raw {
        return Ok(());
    }
    let differs = raw.iter().zip(&wanted.raw).position(|(is, wanted)| is != wanted);
    let at = differs.unwrap_or_else(|| raw.len().min(wanted.raw.len()));
    Err(format!("output '{name}' differs from the expected one at byte {at} of its raw form"))
}

fn missing(wanted: &ExpectedOutput) -> String {
    format!("output '{}' is missing", wanted.name)
}

#[cfg(test)]
mod tests;
