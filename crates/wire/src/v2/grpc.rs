//! V2 over gRPC: one protobuf message in, one out.
//!
//! Raw tensors are slices of the request; responses are always raw, which every known client reads.

use super::check::{Budget, Described, check_inputs_distinct, check_name, check_outputs_distinct};
use super::infer_request::{self, Head, InferRequestReader, given};
use super::{binary, contents, infer_response, shared};
use crate::regions::Regions;
use bytes::{Bytes, BytesMut};
use flyball_core::{
    Answer, Dialect, Fault, GrpcCode, InferRequest, ModelRef, RegionSpan, RequestLimits, RequestedOutput,
    Tensor,
};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// `ModelInfer`. The body is one message without its frame; everything else is in the message.
#[derive(Clone, Debug, Default)]
pub struct GrpcDialect {
    /// Registered shared memory; none: disabled.
    pub regions: Option<Arc<Regions>>,
}

/// The reply over gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrpcReply {
    /// A `ModelInferResponse` in its frame.
    Frame(Bytes),
    Status {
        code: GrpcCode,
        text: Cow<'static, str>,
        /// The value of `grpc-retry-pushback-ms`.
        retry_after_ms: Option<u64>,
    },
}

impl Dialect for GrpcDialect {
    type Reply = GrpcReply;

    fn model(&self, body: &Bytes) -> Option<Cow<'_, ModelRef>> {
        infer_request::peek_model(body).map(Cow::Owned)
    }

    fn mentions(&self, body: &Bytes, parameter: &str) -> bool {
        infer_request::mentions(body, parameter)
    }

    fn parse(&self, body: &Bytes, limits: &RequestLimits, spare: Vec<Tensor>) -> Result<InferRequest, Fault> {
        let mut reader = InferRequestReader::new(body, limits);
        let head = reader.head()?;
        check_name("model", &head.model_name, limits)?;
        check_name("version", &head.model_version, limits)?;
        check_name("id", &head.id, limits)?;
        let (timeout, priority) = head.parameters.check()?;
        let regions = self.regions.as_deref();
        let (inputs, input_spans) = read_inputs(&mut reader, &head, regions, limits, spare)?;
        let outputs = read_outputs(&mut reader, regions)?;
        Ok(InferRequest {
            model: ModelRef { name: head.model_name, version: given(head.model_version) },
            id: given(head.id),
            inputs,
            whole: None,
            outputs,
            binary_outputs: true,
            timeout,
            priority,
            input_spans,
        })
    }

    fn size_max(&self, answer: &Answer<'_>) -> usize {
        infer_response::size(answer)
    }

    fn answer(&self, answer: &Answer<'_>, out: &mut BytesMut) -> Result<GrpcReply, Fault> {
        shared::write_outputs(answer)?;
        infer_response::write(answer, out).inspect_err(|_| out.clear())?;
        Ok(GrpcReply::Frame(out.split().freeze()))
    }

    fn refuse(&self, fault: &Fault) -> GrpcReply {
        let ms = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        let retry_after_ms = fault.retry_after.map(ms);
        GrpcReply::Status { code: fault.kind.grpc(), text: fault.text.clone(), retry_after_ms }
    }
}

fn read_inputs(
    reader: &mut InferRequestReader<'_>,
    head: &Head<'_>,
    regions: Option<&Regions>,
    limits: &RequestLimits,
    mut tensors: Vec<Tensor>,
) -> Result<(Vec<Tensor>, Vec<RegionSpan>), Fault> {
    let mut spans = Vec::new();
    let not_one_each = || {
        Err(Fault::malformed(format!(
            "raw_input_contents has {} entries for {} inputs; each input that is not in shared memory needs one",
            head.raw, head.inputs
        )))
    };
    let mut budget = Budget::of(limits, &head.model_name);
    let mut raw = reader.raw();
    tensors.reserve(head.inputs);
    for message in reader.inputs() {
        let mut input = reader.input(message?)?;
        let (name, axes) = (std::mem::take(&mut input.name), std::mem::take(&mut input.axes));
        let tensor = Described::check(name, input.datatype, axes, limits)?;
        let span = input.shared.span("input", &tensor.name, regions)?;
        if let Some(span) = span {
            if input.has_contents() {
                return Err(tensor.malformed("has both contents and shared_memory_region; give one of them"));
            }
            tensors.push(shared::read(tensor, &span, &mut budget)?);
            spans.push(span);
            continue;
        }
        tensors.push(match raw.next() {
            Some(_) if input.has_contents() => {
                return Err(
                    tensor.malformed("has contents, but raw_input_contents is filled; use one of them")
                );
            }
            Some(bytes) => binary::read(tensor, bytes?, &mut budget)?,
            None if head.raw > 0 => return not_one_each(),
            None => contents::read(tensor, reader.contents(&input)?, &mut budget)?,
        });
    }
    if raw.next().is_some() {
        return not_one_each();
    }
    check_inputs_distinct(&tensors)?;
    Ok((tensors, spans))
}

fn read_outputs(
    reader: &mut InferRequestReader<'_>,
    regions: Option<&Regions>,
) -> Result<SmallVec<[RequestedOutput; 4]>, Fault> {
    let mut outputs = SmallVec::new();
    for message in reader.outputs() {
        outputs.push(reader.output(message?, regions)?);
    }
    check_outputs_distinct(&outputs)?;
    Ok(outputs)
}
