//! The gRPC surface on plain hyper: a unary call is one five-byte-framed message each way and trailers with the
//! status. Methods are told apart here; inference goes to `infer.rs`, health to `health.rs`.

mod health;
mod infer;

use crate::body;
use crate::build::build_info;
use crate::callers::{Peer, Visit};
use crate::http::{is_ready, metadata_of};
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, ReplyBody};
use ::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use bytes::Bytes;
use flyball_core::{Fault, GrpcCode, ModelRef};
use flyball_wire::frame;
use flyball_wire::metadata::ServerMetadata;
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
    Other(Request<Incoming>, Visit),
}

pub(crate) fn enter(context: &LaneContext, peer: &Peer, request: Request<Incoming>) -> Call {
    let path = request.uri().path();
    let method = path.strip_prefix(SERVICE);
    let open = path.starts_with(HEALTH) || matches!(method, Some("ServerLive" | "ServerReady"));
    let visit = if open { Visit::open() } else { context.visit(peer, request.headers()) };
    if method == Some("ModelInfer") {
        Call::Infer(infer::Infer::begin(context, visit, request))
    } else {
        Call::Other(request, visit)
    }
}

pub(crate) async fn finish(context: &LaneContext, call: Call) -> Reply {
    match call {
        Call::Infer(infer) => infer.finish(context).await,
        Call::Other(request, visit) => {
            answer_unary(context, request, visit).await.unwrap_or_else(|fault| refuse(&fault))
        }
    }
}

async fn answer_unary(
    context: &LaneContext,
    request: Request<Incoming>,
    visit: Visit,
) -> Result<Reply, Fault> {
    let path = request.uri().path().to_owned();
    let (_in_flight, standing) = visit.split();
    let (config, part) = (&context.shared.config, context.shared.bodies.part());
    let body = body::read_from(standing, request.into_body(), true, config, &part).await?;
    let message = frame::decode(&body)?;
    if let Some(method) = path.strip_prefix(HEALTH) {
        return health::handle(context, method, &message);
    }
    match path.strip_prefix(SERVICE) {
        Some("ServerLive") => Ok(answer(&ServerLiveResponse { live: true })),
        Some("ServerReady") => Ok(answer(&ServerReadyResponse { ready: context.shared.ready() })),
        Some("ServerMetadata") => {
            Ok(answer(&ServerMetadata::new("flyball", build_info().version).to_message()))
        }
        Some("ModelReady") => {
            let request: ModelReadyRequest = read(&message)?;
            let ready = is_ready(&context.shared, &named(request.name, request.version))?;
            Ok(answer(&ModelReadyResponse { ready }))
        }
        Some("ModelMetadata") => {
            let request: ModelMetadataRequest = read(&message)?;
            Ok(answer(&metadata_of(context, &named(request.name, request.version))?.to_message()))
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
    let mut reply = status(fault.kind.grpc(), &fault.text);
    if let Some(wait) = fault.retry_after {
        let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        reply.headers_mut().insert("grpc-retry-pushback-ms", HeaderValue::from(ms));
    }
    reply
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
