//! The gRPC API on plain hyper. Dispatches methods to their handlers.
//!
//! A unary call is one framed message each way, and trailers with the status. `walk.rs` handles inference and
//! decisions, `stream_infer.rs` the inference stream.

mod encoding;
mod extensions;
mod health;
mod reflection;
mod stream;
mod stream_infer;
mod walk;

pub(crate) use stream::Duplex;

use crate::callers::{Guest, Peer, Visit};
use crate::http::{is_ready, metadata_of, server_metadata};
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, ReplyBody};
use ::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use bytes::Bytes;
use flyball_core::{Access, Dialect, Fault, FaultKind, GrpcCode, ModelRef, Protocol};
use flyball_wire::body::BYTES_MAX as QUESTION_BYTES_MAX;
use flyball_wire::proto::inference::{
    ModelMetadataRequest, ModelReadyRequest, ModelReadyResponse, ServerLiveResponse, ServerReadyResponse,
};
use flyball_wire::{GrpcDialect, GrpcReply, frame};
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;
use std::borrow::Cow;
use std::rc::Rc;

const GRPC: &str = "application/grpc";
const SERVICE: &str = "/inference.GRPCInferenceService/";
const DECIDE: &str = "/flyball.v1.Decisions/Decide";
const HEALTH: &str = "/grpc.health.v1.Health/";
/// Both versions have the same messages.
const REFLECTION: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// A parsed name: a text would be copied into each reply.
pub(crate) static STATUS: HeaderName = HeaderName::from_static("grpc-status");

pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(GRPC.as_bytes()))
}

/// A call whose head has been read: a walk, a stream with its own task, or another method.
pub(crate) enum Call {
    Walk(walk::WalkCall),
    Streams(Reply),
    Other(Request<Incoming>, Visit),
    /// Everyone may query the server's health; a model's needs the right to see it.
    Health {
        request: Request<Incoming>,
        access: Access,
    },
}

pub(crate) fn enter(context: &Rc<LaneContext>, peer: &Peer, request: Request<Incoming>) -> Call {
    let path = request.uri().path();
    let method = path.strip_prefix(SERVICE);
    let allowed = || context.shared.restricted.grpc(path, request.headers());
    let visit = || context.visit(peer, request.headers()).if_allowed(allowed());
    match method {
        Some("ModelInfer") => Call::Walk(walk::WalkCall::begin(context, visit(), false, request)),
        Some("ModelStreamInfer") => {
            if let Err(fault) = allowed() {
                return Call::Streams(refuse(&fault));
            }
            let guest = Guest::find(context.shared.callers.as_ref(), peer, request.headers());
            Call::Streams(stream_infer::begin(context, guest, request))
        }
        Some("ServerLive" | "ServerReady") => {
            let visit = Visit::open().if_allowed(allowed());
            Call::Other(request, visit)
        }
        None if path == DECIDE => Call::Walk(walk::WalkCall::begin(context, visit(), true, request)),
        None if REFLECTION.contains(&path) => Call::Streams(reflection::begin(context, visit(), request)),
        None if path.starts_with(HEALTH) => {
            if let Err(fault) = allowed() {
                return Call::Streams(refuse(&fault));
            }
            let access = context.visitor(peer, request.headers()).access();
            Call::Health { request, access }
        }
        _ => {
            let visit = visit();
            Call::Other(request, visit)
        }
    }
}

pub(crate) async fn finish(context: &LaneContext, call: Call) -> Reply {
    let reply = match call {
        Call::Walk(call) => return call.finish(context).await,
        Call::Streams(reply) => reply,
        Call::Other(request, visit) => {
            answer_unary(context, request, visit).await.unwrap_or_else(|fault| refuse(&fault))
        }
        Call::Health { request, access } => {
            answer_health(context, request, access).await.unwrap_or_else(|fault| refuse(&fault))
        }
    };
    context.shared.refused_queries.count(Protocol::Grpc, &reply);
    reply
}

async fn answer_unary(
    context: &LaneContext,
    request: Request<Incoming>,
    visit: Visit,
) -> Result<Reply, Fault> {
    let path = request.uri().path().to_owned();
    let access = visit.access.clone();
    let (_in_flight, admitted) = visit.split();
    let message = question(context, admitted.and_then(|()| access.require_any()), request).await?;
    match path.strip_prefix(SERVICE) {
        Some("ServerLive") => Ok(answer(&ServerLiveResponse { live: true })),
        Some("ServerReady") => Ok(answer(&ServerReadyResponse { ready: context.shared.ready() })),
        Some("ServerMetadata") => Ok(answer(&server_metadata(&context.shared).to_message())),
        Some("ModelReady") => {
            let request: ModelReadyRequest = read(&message)?;
            // As in Triton, an unknown model is not ready; its client takes a status for a failure.
            let ready = match is_ready(&context.shared, &access, &named(request.name, request.version)) {
                Err(Fault { kind: FaultKind::ModelNotFound | FaultKind::VersionNotFound, .. }) => false,
                known => known?,
            };
            Ok(answer(&ModelReadyResponse { ready }))
        }
        Some("ModelMetadata") => {
            let request: ModelMetadataRequest = read(&message)?;
            Ok(answer(&metadata_of(context, &access, &named(request.name, request.version))?.to_message()))
        }
        Some(method) => {
            let answered = extensions::answer(&context.shared, &access, method, &message).await?;
            Ok(answered.unwrap_or_else(|| no_method(&path)))
        }
        None => Ok(no_method(&path)),
    }
}

async fn answer_health(
    context: &LaneContext,
    request: Request<Incoming>,
    access: Access,
) -> Result<Reply, Fault> {
    let method = request.uri().path().strip_prefix(HEALTH).unwrap_or_default().to_owned();
    let message = question(context, Ok(()), request).await?;
    health::handle(context, &method, &message, access)
}

/// The message of a call other than inference.
async fn question(
    context: &LaneContext,
    admitted: Result<(), Fault>,
    request: Request<Incoming>,
) -> Result<Bytes, Fault> {
    let (part, bytes_max) = (context.shared.bodies.part(), question_bytes_max(context));
    let coding = encoding::of(request.headers());
    let message = async {
        let body = part.read_up_to(bytes_max, admitted, request.into_body(), true).await?;
        encoding::opened(frame::unary(&body)?, coding?, bytes_max, &part).await
    };
    message.await.map_err(|fault| too_large(bytes_max, fault))
}

/// Other messages than inference are decoded on the lane, some of them for anonymous callers.
fn question_bytes_max(context: &LaneContext) -> usize {
    QUESTION_BYTES_MAX.min(context.shared.config.body_bytes_max)
}

/// Names the lower limit of these messages; the readers only know the limit of all bodies.
fn too_large(bytes_max: usize, fault: Fault) -> Fault {
    if fault.kind != FaultKind::BodyTooLarge {
        return fault;
    }
    let text =
        format!("the message is larger than {bytes_max} bytes, the limit of messages other than inference");
    Fault::new(fault.kind, fault.stage, text)
}

/// In gRPC an empty string means "no version".
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

/// A complete response: one frame, then trailers with OK.
fn framed(frame: Option<Bytes>) -> Reply {
    let Some(frame) = frame else {
        return status(GrpcCode::ResourceExhausted, "the answer is larger than a gRPC message can be");
    };
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(&STATUS, HeaderValue::from_static("0"));
    response(ReplyBody::Grpc { message: Some(frame), trailers: Some(trailers) })
}

fn refuse(fault: &Fault) -> Reply {
    refused(&status_of(fault))
}

fn status_of(fault: &Fault) -> GrpcReply {
    GrpcDialect::default().refuse(fault)
}

fn status(code: GrpcCode, text: &str) -> Reply {
    refused(&GrpcReply::Status { code, text: text.to_owned().into(), retry_after_ms: None })
}

/// The trailers of a stream that ends with this status.
fn ending(code: GrpcCode, text: impl Into<Cow<'static, str>>) -> HeaderMap {
    trailers(Some(&GrpcReply::Status { code, text: text.into(), retry_after_ms: None }))
}

fn no_method(path: &str) -> Reply {
    status(GrpcCode::Unimplemented, &format!("there is no method {path}"))
}

/// The reply to a call that names no served host.
pub(crate) fn misdirected(text: &str) -> Reply {
    status(GrpcCode::PermissionDenied, text)
}

/// An error without a message: status in the headers, no body ("trailers only").
fn refused(status: &GrpcReply) -> Reply {
    let mut reply = response(ReplyBody::empty());
    describe(status, reply.headers_mut());
    reply
}

/// The trailers of a stream; OK without a status.
fn trailers(status: Option<&GrpcReply>) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(3);
    trailers.insert(&STATUS, HeaderValue::from_static("0"));
    if let Some(status) = status {
        describe(status, &mut trailers);
    }
    trailers
}

fn describe(status: &GrpcReply, headers: &mut HeaderMap) {
    let GrpcReply::Status { code, text, retry_after_ms } = status else { return };
    // A longer text would exceed the client's header limit and hide the status itself.
    const TEXT_BYTES_MAX: usize = 1024;
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    /// The characters that `grpc-message` must percent-encode.
    const MESSAGE: &AsciiSet = &CONTROLS.add(b'%');
    headers.insert(&STATUS, HeaderValue::from(*code as u16));
    if let Ok(text) = HeaderValue::from_str(&utf8_percent_encode(text, MESSAGE).to_string()) {
        headers.insert("grpc-message", text);
    }
    if let Some(ms) = retry_after_ms {
        headers.insert("grpc-retry-pushback-ms", HeaderValue::from(*ms));
    }
    if *code == GrpcCode::Unimplemented {
        headers.insert("grpc-accept-encoding", HeaderValue::from_static(encoding::ACCEPTED));
    }
}

fn response(body: ReplyBody) -> Reply {
    let mut reply = Response::new(body);
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(GRPC));
    reply
}
