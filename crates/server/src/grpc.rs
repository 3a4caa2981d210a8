//! The gRPC surface on plain hyper: a unary call is one five-byte-framed message each way and trailers with the
//! status. Methods are told apart here; inference goes to `infer.rs`, health to `health.rs`.

mod extensions;
mod health;
mod infer;

use crate::body;
use crate::http::{is_ready, metadata_of, server_metadata};
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, ReplyBody};
use ::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use bytes::Bytes;
use flyball_core::{Fault, GrpcCode, ModelRef};
use flyball_wire::frame;
use flyball_wire::proto::inference::{
    ModelMetadataRequest, ModelReadyRequest, ModelReadyResponse, ServerLiveResponse, ServerReadyResponse,
};
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;

const GRPC: &str = "application/grpc";
const SERVICE: &str = "/inference.GRPCInferenceService/";
const HEALTH: &str = "/grpc.health.v1.Health/";
/// As a name, and not as a text, which would be copied into each reply.
static STATUS: HeaderName = HeaderName::from_static("grpc-status");

pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(GRPC.as_bytes()))
}

/// A call whose head has been read: an inference that walks, or another method.
pub(crate) enum Call {
    Infer(infer::Infer),
    Other(Request<Incoming>),
}

pub(crate) fn enter(context: &LaneContext, request: Request<Incoming>) -> Call {
    if request.uri().path().strip_prefix(SERVICE) == Some("ModelInfer") {
        Call::Infer(infer::Infer::begin(context, request))
    } else {
        Call::Other(request)
    }
}

pub(crate) async fn finish(context: &LaneContext, call: Call) -> Reply {
    match call {
        Call::Infer(infer) => infer.finish(context).await,
        Call::Other(request) => answer_unary(context, request).await.unwrap_or_else(|fault| refuse(&fault)),
    }
}

async fn answer_unary(context: &LaneContext, request: Request<Incoming>) -> Result<Reply, Fault> {
    let path = request.uri().path().to_owned();
    let body =
        body::read(request.into_body(), true, &context.shared.config, &context.shared.bodies.part()).await?;
    let message = frame::decode(&body)?;
    if let Some(method) = path.strip_prefix(HEALTH) {
        return health::handle(context, method, &message);
    }
    match path.strip_prefix(SERVICE) {
        Some("ServerLive") => Ok(answer(&ServerLiveResponse { live: true })),
        Some("ServerReady") => Ok(answer(&ServerReadyResponse { ready: context.shared.ready() })),
        Some("ServerMetadata") => Ok(answer(&server_metadata(&context.shared).to_message())),
        Some("ModelReady") => {
            let request: ModelReadyRequest = read(&message)?;
            let ready = is_ready(&context.shared, &named(request.name, request.version))?;
            Ok(answer(&ModelReadyResponse { ready }))
        }
        Some("ModelMetadata") => {
            let request: ModelMetadataRequest = read(&message)?;
            Ok(answer(&metadata_of(context, &named(request.name, request.version))?.to_message()))
        }
        Some(method) if extensions::has(method) => {
            extensions::answer(&context.shared, method, &message).await
        }
        _ => Ok(status(GrpcCode::Unimplemented, &format!("there is no method {path}"))),
    }
}

/// gRPC says "no version" with an empty string.
fn named(name: String, version: String) -> ModelRef {
    ModelRef { name: name.into(), version: (!version.is_empty()).then(|| version.into()) }
}

fn read<M: Message + Default>(message: &Bytes) -> Result<M, Fault> {
    M::decode(message.clone())
        .map_err(|error| Fault::malformed(format!("the message does not decode: {error}")))
}

fn answer(message: &impl Message) -> Reply {
    framed(frame::encode_message(message))
}

/// A whole answer: one frame, then trailers that say OK.
fn framed(frame: Option<Bytes>) -> Reply {
    let Some(frame) = frame else {
        return status(GrpcCode::ResourceExhausted, "the answer is larger than a gRPC message can be");
    };
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(&STATUS, HeaderValue::from_static("0"));
    response(ReplyBody::Grpc { message: Some(frame), trailers: Some(trailers) })
}

fn refuse(fault: &Fault) -> Reply {
    status(fault.kind.grpc(), &fault.text)
}

/// An error without a message: status in the headers, no body ("trailers only").
fn status(code: GrpcCode, text: &str) -> Reply {
    // Longer ones would break the client's limit on headers and hide the status itself.
    const TEXT_BYTES_MAX: usize = 1024;
    let end = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let text = &text[..end];
    /// What `grpc-message` must percent-encode.
    const MESSAGE: &AsciiSet = &CONTROLS.add(b'%');
    let mut reply = response(ReplyBody::empty());
    reply.headers_mut().insert(&STATUS, HeaderValue::from(code as u16));
    if let Ok(text) = HeaderValue::from_str(&utf8_percent_encode(text, MESSAGE).to_string()) {
        reply.headers_mut().insert("grpc-message", text);
    }
    reply
}

fn response(body: ReplyBody) -> Reply {
    let mut reply = Response::new(body);
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(GRPC));
    reply
}
