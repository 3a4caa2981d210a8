//! V2 over gRPC: one protobuf message in, one out. Raw tensors are slices of the message that came in; answers are
//! always raw, which is what every known client reads.

use super::check::{Budget, Described, check_distinct, check_name, unsupported};
use super::infer_request::{Head, InferRequestReader};
use super::{binary, contents, infer_response, parameters};
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use flyball_core::{
    Answer, Dialect, Fault, GrpcCode, InferRequest, ModelRef, RequestLimits, RequestedOutput, Tensor,
};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::time::Duration;

/// `ModelInfer`. The body is one message without its frame; everything else is in the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcDialect;

/// What goes back over gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrpcReply {
    /// A `ModelInferResponse` in its frame.
    Frame(Bytes),
    Status {
        code: GrpcCode,
        text: Cow<'static, str>,
        /// To be sent as `grpc-retry-pushback-ms`.
        retry_after_ms: Option<u64>,
    },
}

impl Dialect for GrpcDialect {
    type Reply = GrpcReply;

    fn model(&self) -> Option<&ModelRef> {
        None
    }

    /// The head of a call names no model, so nothing is refused by it.
    fn mentions(&self, _body: &Bytes, _parameter: &str) -> bool {
        true
    }

    fn parse(&self, body: &Bytes, limits: &RequestLimits, spare: Vec<Tensor>) -> Result<InferRequest, Fault> {
        let mut reader = InferRequestReader::new(body, limits);
        let head = reader.head()?;
        check_name("model", &head.model_name, limits)?;
        check_name("version", &head.model_version, limits)?;
        check_name("id", &head.id, limits)?;
        let timeout = parameters::timeout(head.timeout)?;
        let priority = parameters::priority(head.priority)?;
        let inputs = read_inputs(&mut reader, &head, limits, spare)?;
        let outputs = read_outputs(&mut reader)?;
        Ok(InferRequest {
            model: ModelRef { name: head.model_name, version: given(head.model_version) },
            id: given(head.id),
            inputs,
            outputs,
            binary_outputs: true,
            timeout,
            priority,
        })
    }

    fn answer(&self, answer: &Answer<'_>, out: &mut BytesMut) -> Result<GrpcReply, Fault> {
        if let Err(fault) = infer_response::write(answer, out) {
            out.clear();
            return Err(fault);
        }
        Ok(GrpcReply::Frame(out.split().freeze()))
    }

    fn refuse(&self, fault: &Fault) -> GrpcReply {
        let ms = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        let retry_after_ms = fault.retry_after.map(ms);
        GrpcReply::Status { code: fault.kind.grpc(), text: fault.text.clone(), retry_after_ms }
    }
}

/// Protobuf cannot tell an empty string from none.
fn given(text: ByteString) -> Option<ByteString> {
    (!text.is_empty()).then_some(text)
}

fn read_inputs(
    reader: &mut InferRequestReader<'_>,
    head: &Head,
    limits: &RequestLimits,
    mut tensors: Vec<Tensor>,
) -> Result<Vec<Tensor>, Fault> {
    if head.raw > 0 && head.raw != head.inputs {
        return Err(Fault::malformed(format!(
            "raw_input_contents has {} entries for {} inputs; each input needs one",
            head.raw, head.inputs
        )));
    }
    let mut budget = Budget::of(limits);
    let mut raw = reader.raw();
    tensors.reserve(head.inputs);
    for message in reader.inputs() {
        let mut input = reader.input(message?)?;
        let (name, axes) = (std::mem::take(&mut input.name), std::mem::take(&mut input.axes));
        let tensor = Described::check(name, input.datatype, axes, limits)?;
        if input.in_shared_memory {
            return Err(unsupported("input", &tensor.name, "system_shared_memory"));
        }
        tensors.push(match raw.next() {
            Some(_) if input.has_contents() => {
                return Err(
                    tensor.malformed("has contents, but raw_input_contents is filled; use one of them")
                );
            }
            Some(bytes) => binary::read(tensor, bytes?, &mut budget)?,
            None => contents::read(tensor, reader.contents(&input)?, &mut budget)?,
        });
    }
    check_distinct("input", tensors.iter().map(|tensor| &*tensor.name))?;
    Ok(tensors)
}

fn read_outputs(reader: &mut InferRequestReader<'_>) -> Result<SmallVec<[RequestedOutput; 4]>, Fault> {
    let mut outputs = SmallVec::new();
    for message in reader.outputs() {
        outputs.push(reader.output(message?)?);
    }
    check_distinct("output", outputs.iter().map(|output: &RequestedOutput| &*output.name))?;
    Ok(outputs)
}
