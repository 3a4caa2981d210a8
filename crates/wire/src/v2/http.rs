//! V2 over HTTP: JSON bodies, and the binary tensor extension in both directions.
//!
//! Knows the request's head (model, length of the JSON part) and nothing of connections.

use super::check::{
    Budget, Described, check_inputs_distinct, check_name, check_output, check_outputs_distinct,
};
use super::envelope::{Envelope, Input, Output, Parts, Text, Unread};
use super::{binary, json, non_finite, numbers, parameters, shared};
use crate::regions::Regions;
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use flyball_core::{
    Answer, Dialect, Fault, FaultKind, InferRequest, ModelRef, Priority, RegionSpan, RequestLimits,
    RequestedOutput, Tensor, TensorData,
};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// The header with the length of the JSON part, in both directions.
const LENGTH_HEADER: &str = "Inference-Header-Content-Length";

/// One V2 request over HTTP, as its head describes it.
#[derive(Clone, Debug)]
pub struct HttpDialect {
    pub model: ModelRef,
    /// The value of `Inference-Header-Content-Length`, if present.
    pub header_length: Option<usize>,
    /// Registered shared memory; none: disabled.
    pub regions: Option<Arc<Regions>>,
    /// Refuses NaN and Infinity in JSON, in both directions.
    pub strict_json: bool,
    /// Answers with Triton's status codes where they differ.
    pub triton_statuses: bool,
}

/// The reply over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    pub status: u16,
    pub content_type: &'static str,
    /// The value of `Inference-Header-Content-Length`: raw tensors follow the JSON part.
    pub header_length: Option<usize>,
    pub retry_after_s: Option<u64>,
    pub body: Bytes,
}

impl HttpReply {
    pub fn json(status: u16, body: impl Into<Bytes>) -> HttpReply {
        HttpReply {
            status,
            content_type: "application/json",
            header_length: None,
            retry_after_s: None,
            body: body.into(),
        }
    }
}

impl Dialect for HttpDialect {
    type Reply = HttpReply;

    fn model(&self, _body: &Bytes) -> Option<Cow<'_, ModelRef>> {
        Some(Cow::Borrowed(&self.model))
    }

    /// Misses a key with escapes, which no known client writes. A text of that name counts too: then the body
    /// is parsed, which is always correct.
    fn mentions(&self, body: &Bytes, parameter: &str) -> bool {
        let json = &body[..self.header_length.unwrap_or(body.len()).min(body.len())];
        let quoted = |text: &str, at: usize| {
            text[..at].ends_with('"') && text[at + parameter.len()..].starts_with('"')
        };
        std::str::from_utf8(json)
            .is_ok_and(|text| text.match_indices(parameter).any(|(at, _)| quoted(text, at)))
    }

    fn parse(&self, body: &Bytes, limits: &RequestLimits, spare: Vec<Tensor>) -> Result<InferRequest, Fault> {
        if self.header_length == Some(0) {
            return Ok(self.raw_binary(body, spare));
        }
        let json_length = self.json_length(body.len())?;
        let text = ByteString::try_from(body.slice(..json_length))
            .map_err(|error| Fault::malformed(format!("the JSON part is not UTF-8: {error}")))?;
        let raw = || body.slice(json_length..);
        let mut request = self.read(&text, &text, raw(), limits, spare);
        if let Err(Unread::Json(error)) = &request
            && error.is_syntax()
            && let Some(masked) = non_finite::masked(&text)
        {
            if self.strict_json {
                return Err(not_strict_json(error));
            }
            request = self.read(&masked.into(), &text, raw(), limits, Vec::new());
        }
        request.map_err(|unread| match unread {
            Unread::Json(error) => Fault::malformed(format!("the JSON part does not parse: {error}")),
            Unread::Part(fault) => fault,
        })
    }

    fn size_max(&self, answer: &Answer<'_>) -> usize {
        json::size_max(answer) + raw(answer).map(binary::size).sum::<usize>()
    }

    fn answer(&self, answer: &Answer<'_>, out: &mut BytesMut) -> Result<HttpReply, Fault> {
        shared::write_outputs(answer)?;
        out.reserve(JSON_BYTES + raw(answer).map(binary::size).sum::<usize>());
        json::write_answer(answer, self.strict_json, out).inspect_err(|_| out.clear())?;
        let json_length = out.len();
        raw(answer).for_each(|data| binary::write(data, out));
        let body = out.split().freeze();
        if raw(answer).next().is_none() {
            return Ok(HttpReply::json(200, body));
        }
        let content_type = "application/octet-stream";
        Ok(HttpReply { content_type, header_length: Some(json_length), ..HttpReply::json(200, body) })
    }

    fn refuse(&self, fault: &Fault) -> HttpReply {
        HttpReply {
            retry_after_s: fault.retry_after.map(whole_seconds),
            ..HttpReply::json(self.status(fault.kind), json::error_body(&fault.text))
        }
    }
}

/// The outputs after the JSON part.
fn raw<'a>(answer: &Answer<'a>) -> impl Iterator<Item = &'a TensorData> {
    answer.each().filter(|(_, place)| place.raw).map(|(tensor, _)| &tensor.data)
}

/// The approximate size of a raw response's JSON part; it may be larger.
const JSON_BYTES: usize = 256;

/// Rounded up, because an early retry is rejected again; and 0 would mean "at once".
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

impl HttpDialect {
    fn status(&self, kind: FaultKind) -> u16 {
        if self.triton_statuses { kind.triton_http() } else { kind.http() }
    }

    /// Elements of tensors come from `unmasked`, which differs from `text` only in what it masks.
    fn read(
        &self,
        text: &ByteString,
        unmasked: &str,
        raw: Bytes,
        limits: &RequestLimits,
        inputs: Vec<Tensor>,
    ) -> Result<InferRequest, Unread> {
        let budget = Budget::of(limits, &self.model.name);
        let outputs = SmallVec::new();
        let spans = Vec::new();
        let mut tensors =
            Tensors { dialect: self, limits, text, unmasked, raw, taken: 0, budget, inputs, spans, outputs };
        let envelope = Envelope::read(text, limits, &mut tensors)?;
        let id = envelope.id.map(|id| shared_text(text, id));
        if let Some(id) = &id {
            check_name("id", id, limits).map_err(Unread::Part)?;
        }
        let (timeout, priority) = envelope.parameters.check().map_err(Unread::Part)?;
        let (inputs, input_spans, outputs) = tensors.finish().map_err(Unread::Part)?;
        Ok(InferRequest {
            model: self.model.clone(),
            id,
            inputs,
            whole: None,
            outputs,
            binary_outputs: envelope.binary_outputs,
            timeout,
            priority,
            input_spans,
        })
    }

    /// A request without a JSON part. Only the model knows which tensor its body is.
    fn raw_binary(&self, body: &Bytes, inputs: Vec<Tensor>) -> InferRequest {
        InferRequest {
            model: self.model.clone(),
            id: None,
            inputs,
            whole: Some(body.clone()),
            outputs: SmallVec::new(),
            binary_outputs: true,
            timeout: None,
            priority: Priority::default(),
            input_spans: Vec::new(),
        }
    }

    fn json_length(&self, body_length: usize) -> Result<usize, Fault> {
        match self.header_length {
            None => Ok(body_length),
            Some(length) if length > body_length => Err(Fault::malformed(format!(
                "{LENGTH_HEADER} is {length}, but the body has only {body_length} bytes"
            ))),
            Some(length) => Ok(length),
        }
    }
}

/// Parses inputs in order; raw tensors follow the JSON part in the same order.
struct Tensors<'d> {
    dialect: &'d HttpDialect,
    limits: &'d RequestLimits,
    text: &'d ByteString,
    /// The text before its NaN and Infinity were masked, if they were.
    unmasked: &'d str,
    raw: Bytes,
    taken: usize,
    budget: Budget<'d>,
    inputs: Vec<Tensor>,
    spans: Vec<RegionSpan>,
    outputs: SmallVec<[RequestedOutput; 4]>,
}

/// The inputs, where those in shared memory came from, and the outputs.
type Finished = (Vec<Tensor>, Vec<RegionSpan>, SmallVec<[RequestedOutput; 4]>);

impl<'t> Parts<'t> for Tensors<'_> {
    fn input(&mut self, input: Input<'t>) -> Result<(), Fault> {
        let name = shared_text(self.text, input.name);
        let tensor = Described::check(name, &input.datatype.0, input.shape, self.limits)?;
        let mut parameters = input.parameters.unwrap_or_default();
        let span = parameters.shared().span("input", &tensor.name, self.dialect.regions.as_deref())?;
        let tensor = match (input.data, parameters.binary_data_size, span) {
            (Some(data), None, None) => {
                let text = self.unmasked(data.get());
                let data = numbers::read(&tensor, text, &mut self.budget)?;
                tensor.with(data)
            }
            (None, Some(size), None) => {
                let bytes = self.take(&tensor, size)?;
                binary::read(tensor, bytes, &mut self.budget)?
            }
            (None, None, Some(span)) => {
                let tensor = shared::read(tensor, &span, &mut self.budget)?;
                self.spans.push(span);
                tensor
            }
            (None, None, None) => {
                return Err(tensor.malformed(
                    "has neither data nor parameters.binary_data_size nor parameters.shared_memory_region",
                ));
            }
            _ => {
                return Err(tensor.malformed(
                    "has more than one of data, parameters.binary_data_size and parameters.shared_memory_region; \
                     give one of them",
                ));
            }
        };
        self.inputs.push(tensor);
        Ok(())
    }

    fn output(&mut self, output: Output<'t>) -> Result<(), Fault> {
        let name = shared_text(self.text, output.name);
        check_name("output", &name, self.limits)?;
        let mut parameters = output.parameters.unwrap_or_default();
        let region = parameters.shared().span("output", &name, self.dialect.regions.as_deref())?;
        let classes = parameters::classes(&name, parameters.classification.as_ref())?;
        let output = RequestedOutput { name, binary: parameters.binary_data, classes, region };
        check_output(&output)?;
        self.outputs.push(output);
        Ok(())
    }
}

impl<'d> Tensors<'d> {
    /// The same part of the text before masking, which keeps all offsets.
    fn unmasked(&self, part: &str) -> &'d str {
        let start = part.as_ptr().addr() - self.text.as_ptr().addr();
        &self.unmasked[start..start + part.len()]
    }

    fn take(&mut self, tensor: &Described, size: usize) -> Result<Bytes, Fault> {
        if self.dialect.header_length.is_none() {
            return Err(tensor.malformed(format_args!(
                "binary_data_size is given, but the header {LENGTH_HEADER} is missing"
            )));
        }
        let left = self.raw.len() - self.taken;
        if size > left {
            return Err(tensor.malformed(format_args!(
                "binary_data_size is {size}, but only {left} bytes are left in the body"
            )));
        }
        let bytes = self.raw.slice(self.taken..self.taken + size);
        self.taken += size;
        Ok(bytes)
    }

    fn finish(self) -> Result<Finished, Fault> {
        if self.taken != self.raw.len() {
            return Err(Fault::malformed(format!(
                "the body has {} bytes after its JSON part, but the inputs' binary_data_size add up to {}",
                self.raw.len(),
                self.taken
            )));
        }
        check_inputs_distinct(&self.inputs)?;
        check_outputs_distinct(&self.outputs)?;
        Ok((self.inputs, self.spans, self.outputs))
    }
}

/// A slice of the request's text, or a copy if it has escapes.
fn shared_text(text: &ByteString, part: Text<'_>) -> ByteString {
    match part.0 {
        Cow::Borrowed(slice) => text.slice_ref(slice),
        Cow::Owned(unescaped) => unescaped.into(),
    }
}

fn not_strict_json(error: &serde_json::Error) -> Fault {
    Fault::malformed(format!(
        "the JSON part does not parse: {error}; strict JSON (setting strict_json) has no NaN and no Infinity, send such \
         numbers as binary tensor data or over gRPC"
    ))
}
