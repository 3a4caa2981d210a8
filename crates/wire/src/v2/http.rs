//! V2 over HTTP: JSON bodies, and the binary tensor extension in both directions.
//!
//! Knows what the request's head said (model, length of the JSON part) and nothing of connections.

use super::check::{Budget, Described, check_distinct, check_name, unsupported};
use super::envelope::{Envelope, Input, Output};
use super::{binary, json, numbers};
use bytes::Bytes;
use flyball_core::{
    Answer, Dialect, Fault, FaultKind, InferRequest, ModelRef, RequestLimits, RequestedOutput, Stage, Tensor,
};

/// The header that carries the length of the JSON part, in both directions.
const LENGTH_HEADER: &str = "Inference-Header-Content-Length";

/// One V2 request over HTTP, as its head describes it.
#[derive(Clone, Debug)]
pub struct HttpDialect {
    pub model: ModelRef,
    /// The value of `Inference-Header-Content-Length`, where the request has it.
    pub header_length: Option<usize>,
}

/// What goes back over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    pub status: u16,
    pub content_type: &'static str,
    /// To be sent as `Inference-Header-Content-Length`: raw tensors follow the JSON part.
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

    fn model(&self) -> Option<&ModelRef> {
        Some(&self.model)
    }

    fn parse(&self, body: &Bytes, limits: &RequestLimits) -> Result<InferRequest, Fault> {
        let json_length = self.json_length(body.len())?;
        let text = std::str::from_utf8(&body[..json_length])
            .map_err(|error| Fault::malformed(format!("the JSON part is not UTF-8: {error}")))?;
        let envelope = Envelope::read(text, limits).map_err(|error| not_json(text, &error))?;
        if let Some(id) = &envelope.id {
            check_name("id", id, limits)?;
        }
        let mut tensors =
            Tensors { budget: Budget::of(limits), raw: body.slice(json_length..), taken: 0, dialect: self };
        let mut inputs = Vec::with_capacity(envelope.inputs.len());
        for input in envelope.inputs {
            inputs.push(tensors.read(input, limits)?);
        }
        tensors.finish()?;
        check_distinct("input", inputs.len(), inputs.iter().map(|input| input.name.as_str()))?;
        let outputs = read_outputs(envelope.outputs, limits)?;
        Ok(InferRequest {
            model: self.model.clone(),
            id: envelope.id,
            inputs,
            outputs,
            binary_outputs: envelope.binary_outputs,
        })
    }

    fn answer(&self, answer: &Answer) -> Result<HttpReply, Fault> {
        let raw_size: usize =
            answer.outputs.iter().filter(|(_, raw)| *raw).map(|(tensor, _)| binary::size(&tensor.data)).sum();
        let mut body = Vec::with_capacity(256 + raw_size);
        json::write_answer(answer, &mut body)?;
        if !answer.outputs.iter().any(|(_, raw)| *raw) {
            return Ok(HttpReply::json(200, body));
        }
        let json_length = body.len();
        for (tensor, _) in answer.outputs.iter().filter(|(_, raw)| *raw) {
            binary::write(&tensor.data, &mut body);
        }
        Ok(HttpReply {
            status: 200,
            content_type: "application/octet-stream",
            header_length: Some(json_length),
            retry_after_s: None,
            body: body.into(),
        })
    }

    fn refuse(&self, fault: &Fault) -> HttpReply {
        HttpReply {
            retry_after_s: fault.kind.retry_after().map(|wait| wait.as_secs()),
            ..HttpReply::json(fault.kind.http(), json::error_body(&fault.text))
        }
    }
}

impl HttpDialect {
    fn json_length(&self, body_length: usize) -> Result<usize, Fault> {
        match self.header_length {
            None => Ok(body_length),
            Some(0) => Err(Fault::new(
                FaultKind::Unsupported,
                Stage::Parse,
                format!(
                    "{LENGTH_HEADER}: 0 (a raw binary request) is not supported; send a JSON part that names the \
                     input, and its binary_data_size"
                ),
            )),
            Some(length) if length > body_length => Err(Fault::malformed(format!(
                "{LENGTH_HEADER} is {length}, but the body has only {body_length} bytes"
            ))),
            Some(length) => Ok(length),
        }
    }
}

/// Reads inputs one after the other; raw tensors lie behind the JSON part in the order of their inputs.
struct Tensors<'d> {
    budget: Budget,
    raw: Bytes,
    taken: usize,
    dialect: &'d HttpDialect,
}

impl Tensors<'_> {
    fn read(&mut self, input: Input<'_>, limits: &RequestLimits) -> Result<Tensor, Fault> {
        let tensor =
            Described::check(input.name, &input.datatype, input.shape.kept, input.shape.rank, limits)?;
        let parameters = input.parameters.as_ref();
        if parameters.is_some_and(|parameters| parameters.shared_memory_region.is_some()) {
            return Err(unsupported("input", &tensor.name, "system_shared_memory"));
        }
        match (input.data, parameters.and_then(|parameters| parameters.binary_data_size)) {
            (Some(data), None) => {
                let data = numbers::read(&tensor, data.get(), &mut self.budget)?;
                Ok(tensor.with(data))
            }
            (None, Some(size)) => {
                let bytes = self.take(&tensor, size)?;
                binary::read(tensor, bytes, &mut self.budget)
            }
            (Some(_), Some(_)) => {
                Err(tensor.malformed("has both data and parameters.binary_data_size; give one of them"))
            }
            (None, None) => Err(tensor.malformed("has neither data nor parameters.binary_data_size")),
        }
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

    fn finish(&self) -> Result<(), Fault> {
        if self.taken == self.raw.len() {
            return Ok(());
        }
        Err(Fault::malformed(format!(
            "the body has {} bytes after its JSON part, but the inputs' binary_data_size add up to {}",
            self.raw.len(),
            self.taken
        )))
    }
}

fn read_outputs(outputs: Vec<Output>, limits: &RequestLimits) -> Result<Vec<RequestedOutput>, Fault> {
    check_distinct("output", outputs.len(), outputs.iter().map(|output| output.name.as_str()))?;
    let read = |output: Output| {
        check_name("output", &output.name, limits)?;
        let parameters = output.parameters.as_ref();
        if parameters.is_some_and(|parameters| parameters.shared_memory_region.is_some()) {
            return Err(unsupported("output", &output.name, "system_shared_memory"));
        }
        if parameters.is_some_and(|parameters| parameters.classification.is_some()) {
            return Err(unsupported("output", &output.name, "classification"));
        }
        let binary = output.parameters.and_then(|parameters| parameters.binary_data);
        Ok(RequestedOutput { name: output.name, binary })
    };
    outputs.into_iter().map(read).collect()
}

fn not_json(text: &str, error: &serde_json::Error) -> Fault {
    if error.is_syntax() && names_a_non_number(text, error) {
        return Fault::malformed(format!(
            "the JSON part does not parse: {error}; JSON has no NaN and no Infinity, send such numbers as binary \
             tensor data or over gRPC"
        ));
    }
    Fault::malformed(format!("the JSON part does not parse: {error}"))
}

/// Whether the parser stopped at the `NaN` or `Infinity` that several languages write by default.
fn names_a_non_number(text: &str, error: &serde_json::Error) -> bool {
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default().as_bytes();
    let start = error.column().saturating_sub(2).min(line.len());
    let end = (error.column() + 8).min(line.len());
    let near = &line[start..end];
    near.windows(3).any(|word| word == b"NaN" || word == b"Inf")
}
