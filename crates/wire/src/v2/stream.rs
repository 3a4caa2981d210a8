//! `ModelStreamInfer`, as in Triton: requests and responses of `ModelInfer`, wrapped.
//!
//! The wrapper may contain an error instead. Knows one request; the transport owns the stream.

use super::grpc::{GrpcDialect, GrpcReply};
use crate::fields::{Fields, put_length};
use crate::frame;
use crate::proto::inference::infer_parameter::ParameterChoice;
use crate::proto::inference::{InferParameter, ModelInferResponse, ModelStreamInferResponse};
use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use flyball_core::{Answer, Dialect, Fault, InferRequest, ModelRef, RequestLimits, Tensor};
use prost::Message;
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::LazyLock;

/// The field of `ModelStreamInferResponse` with the response.
const INFER_RESPONSE: u32 = 2;
// Field numbers of ModelInferRequest.
const MODEL_NAME: u32 = 1;
const MODEL_VERSION: u32 = 2;
const ID: u32 = 3;
/// Every response states whether it is its request's last; a model here has one.
const FINAL: &str = "triton_final_response";

/// One request of a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamDialect {
    unary: GrpcDialect,
    /// The request's identification, for errors.
    named: RefCell<Named>,
}

#[derive(Clone, Debug, Default)]
struct Named {
    model: ByteString,
    version: ByteString,
    id: ByteString,
}

/// The reply to one request of a stream, in its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamReply {
    Answer(Bytes),
    /// The same fault twice: as a message after which the stream goes on, and as the status that ends it.
    Fault {
        message: Bytes,
        status: GrpcReply,
    },
}

impl StreamDialect {
    pub fn new(unary: GrpcDialect) -> StreamDialect {
        StreamDialect { unary, named: RefCell::default() }
    }
}

impl Dialect for StreamDialect {
    type Reply = StreamReply;

    fn model(&self, body: &Bytes) -> Option<Cow<'_, ModelRef>> {
        self.unary.model(body)
    }

    fn mentions(&self, body: &Bytes, parameter: &str) -> bool {
        self.unary.mentions(body, parameter)
    }

    fn parse(&self, body: &Bytes, limits: &RequestLimits, spare: Vec<Tensor>) -> Result<InferRequest, Fault> {
        let request = self.unary.parse(body, limits, spare);
        *self.named.borrow_mut() = match &request {
            Ok(request) => Named {
                model: request.model.name.clone(),
                version: request.model.version.clone().unwrap_or_default(),
                id: request.id.clone().unwrap_or_default(),
            },
            Err(_) => Named::glimpsed(body, limits.name_bytes_max),
        };
        request
    }

    fn size_max(&self, answer: &Answer<'_>) -> usize {
        self.unary.size_max(answer) + 2 * KEY_BYTES_MAX + FINAL_FLAG.len()
    }

    fn answer(&self, answer: &Answer<'_>, out: &mut BytesMut) -> Result<StreamReply, Fault> {
        let unary = match self.unary.answer(answer, out)? {
            GrpcReply::Frame(unary) => unary.slice(frame::HEAD_BYTES..),
            status @ GrpcReply::Status { .. } => {
                return Ok(StreamReply::Fault { message: self.error("the request was refused"), status });
            }
        };
        // Fields may come in any order, so the flag follows what was written without it.
        let length = unary.len() + FINAL_FLAG.len();
        out.reserve(frame::HEAD_BYTES + 2 * KEY_BYTES_MAX + length);
        frame::write(out, |out| {
            put_length(INFER_RESPONSE, length, out);
            out.put_slice(&unary);
            out.put_slice(&FINAL_FLAG);
        })
        .inspect_err(|_| out.clear())?;
        Ok(StreamReply::Answer(out.split().freeze()))
    }

    fn refuse(&self, fault: &Fault) -> StreamReply {
        StreamReply::Fault { message: self.error(&fault.text), status: self.unary.refuse(fault) }
    }
}

/// The longest key or length in a message, as a varint.
const KEY_BYTES_MAX: usize = 10;

static FINAL_FLAG: LazyLock<Vec<u8>> = LazyLock::new(|| final_flag().encode_to_vec());

fn final_flag() -> ModelInferResponse {
    let last = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
    ModelInferResponse { parameters: [(FINAL.to_owned(), last)].into(), ..ModelInferResponse::default() }
}

impl StreamDialect {
    fn error(&self, text: &str) -> Bytes {
        let Named { model, version, id } = self.named.borrow().clone();
        let named = ModelInferResponse {
            model_name: model.to_string(),
            model_version: version.to_string(),
            id: id.to_string(),
            ..final_flag()
        };
        let message =
            ModelStreamInferResponse { error_message: text.to_owned(), infer_response: Some(named) };
        frame::encode_message(&message).expect("a fault's text and three names are short")
    }
}

impl Named {
    /// The identification of a request that could not be parsed. Omits a name that is too long.
    fn glimpsed(body: &Bytes, bytes_max: usize) -> Named {
        let mut named = Named::default();
        for field in Fields::of(body).map_while(Result::ok) {
            let place = match field.tag {
                MODEL_NAME => &mut named.model,
                MODEL_VERSION => &mut named.version,
                ID => &mut named.id,
                _ => continue,
            };
            *place = field.text().ok().filter(|text| text.len() <= bytes_max).unwrap_or_default().into();
        }
        named
    }
}
