//! V2 over gRPC: one protobuf message in, one out. Raw tensors are slices of the message that came in; answers are
//! always raw, which is what every known client reads.

use super::check::{Budget, Described, check_distinct, check_name, unsupported};
use super::{binary, contents, prescan};
use crate::proto::inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use crate::proto::inference::model_infer_response::InferOutputTensor;
use crate::proto::inference::{ModelInferRequest, ModelInferResponse};
use bytes::Bytes;
use flyball_core::{
    Answer, Dialect, Fault, GrpcCode, InferRequest, ModelRef, RequestLimits, RequestedOutput, Shape, Tensor,
};
use prost::Message;

/// `ModelInfer`. The body is one message without its frame; everything else is in the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcDialect;

/// What goes back over gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrpcReply {
    /// An encoded `ModelInferResponse`, without its frame.
    Message(Bytes),
    Status {
        code: GrpcCode,
        text: String,
    },
}

impl Dialect for GrpcDialect {
    type Reply = GrpcReply;

    fn model(&self) -> Option<&ModelRef> {
        None
    }

    fn parse(&self, body: &Bytes, limits: &RequestLimits) -> Result<InferRequest, Fault> {
        prescan::check(body, limits)?;
        let message = ModelInferRequest::decode(body.clone()).map_err(|error| prescan::malformed(&error))?;
        check_name("model", &message.model_name, limits)?;
        check_name("version", &message.model_version, limits)?;
        check_name("id", &message.id, limits)?;
        let inputs = read_inputs(message.inputs, message.raw_input_contents, limits)?;
        let outputs = read_outputs(message.outputs, limits)?;
        Ok(InferRequest {
            model: ModelRef { name: message.model_name, version: given(message.model_version) },
            id: given(message.id),
            inputs,
            outputs,
            binary_outputs: true,
        })
    }

    fn answer(&self, answer: &Answer) -> Result<GrpcReply, Fault> {
        let outputs = answer.outputs.iter().map(|(tensor, _)| InferOutputTensor {
            name: tensor.name.clone(),
            datatype: tensor.datatype.name().to_owned(),
            shape: tensor.shape.to_vec(),
            ..InferOutputTensor::default()
        });
        let message = ModelInferResponse {
            model_name: answer.model.clone(),
            model_version: answer.version.clone(),
            id: answer.id.clone().unwrap_or_default(),
            outputs: outputs.collect(),
            raw_output_contents: answer
                .outputs
                .iter()
                .map(|(tensor, _)| binary::bytes(&tensor.data))
                .collect(),
            ..ModelInferResponse::default()
        };
        Ok(GrpcReply::Message(message.encode_to_vec().into()))
    }

    fn refuse(&self, fault: &Fault) -> GrpcReply {
        GrpcReply::Status { code: fault.kind.grpc(), text: fault.text.clone().into_owned() }
    }
}

/// Protobuf cannot tell an empty string from none.
fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn read_inputs(
    inputs: Vec<InferInputTensor>,
    raw: Vec<Bytes>,
    limits: &RequestLimits,
) -> Result<Vec<Tensor>, Fault> {
    if !raw.is_empty() && raw.len() != inputs.len() {
        return Err(Fault::malformed(format!(
            "raw_input_contents has {} entries for {} inputs; each input needs one",
            raw.len(),
            inputs.len()
        )));
    }
    check_distinct("input", inputs.len(), inputs.iter().map(|input| input.name.as_str()))?;
    let mut budget = Budget::of(limits);
    let mut raw = raw.into_iter();
    let mut tensors = Vec::with_capacity(inputs.len());
    for input in inputs {
        let rank = input.shape.len();
        let tensor =
            Described::check(input.name, &input.datatype, Shape::from_vec(input.shape), rank, limits)?;
        if input.parameters.contains_key("shared_memory_region") {
            return Err(unsupported("input", &tensor.name, "system_shared_memory"));
        }
        tensors.push(match (raw.next(), input.contents) {
            (Some(_), Some(_)) => {
                return Err(
                    tensor.malformed("has contents, but raw_input_contents is filled; use one of them")
                );
            }
            (Some(bytes), None) => binary::read(tensor, bytes, &mut budget)?,
            (None, contents) => contents::read(tensor, contents, &mut budget)?,
        });
    }
    Ok(tensors)
}

fn read_outputs(
    outputs: Vec<InferRequestedOutputTensor>,
    limits: &RequestLimits,
) -> Result<Vec<RequestedOutput>, Fault> {
    check_distinct("output", outputs.len(), outputs.iter().map(|output| output.name.as_str()))?;
    let read = |output: InferRequestedOutputTensor| {
        check_name("output", &output.name, limits)?;
        let unknown =
            [("shared_memory_region", "system_shared_memory"), ("classification", "classification")];
        match unknown.into_iter().find(|(parameter, _)| output.parameters.contains_key(*parameter)) {
            Some((_, extension)) => Err(unsupported("output", &output.name, extension)),
            None => Ok(RequestedOutput { name: output.name, binary: None }),
        }
    };
    outputs.into_iter().map(read).collect()
}
