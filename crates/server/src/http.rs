//! The HTTP surface: V2 REST, health and metrics. Routes are told apart here; inference goes to `infer.rs`, Triton's
//! extensions to `extensions.rs`.

mod extensions;
mod infer;
mod path;

use crate::build::build_info;
use crate::errands::aside;
use crate::lane_thread::{LaneContext, Shared};
use crate::reply::{Reply, whole};
use ::http::{HeaderValue, Request, StatusCode, header};
use bytes::Bytes;
use flyball_core::{Fault, FaultKind, ModelRef};
use flyball_plane::route;
use flyball_telemetry::{BuildFacts, Gauges};
use flyball_wire::metadata::{self, Allowed, ModelMetadata, ServerMetadata};
use hyper::body::Incoming;
use path::{Extension, Target};
use std::time::Duration;

const JSON: &str = "application/json";
/// Of this very surface; `tests/contract/test_openapi.py` holds the two together.
const OPENAPI: &[u8] = include_bytes!("http/openapi.json");

/// A request whose head has been read: an inference that walks, or anything else, which is answered from the head.
pub(crate) enum Call {
    Infer(infer::Infer),
    Metrics,
    Extension(Extension, Request<Incoming>),
    Answered(Reply),
}

impl Call {
    pub(crate) fn needs_http2() -> Call {
        Call::Answered(error(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "gRPC needs HTTP/2"))
    }
}

pub(crate) fn enter(context: &LaneContext, request: Request<Incoming>, lay_unread: Duration) -> Call {
    let Some(target) = path::target(request.uri().path()) else {
        return Call::Answered(error(StatusCode::NOT_FOUND, "Not Found"));
    };
    if !target.allows(request.method()) {
        return Call::Answered(wrong_method(target.allowed()));
    }
    Call::Answered(match target {
        Target::Infer(model) => {
            return Call::Infer(infer::Infer::begin(context, model, request, lay_unread));
        }
        Target::Server => whole(StatusCode::OK, JSON, server_metadata(&context.shared).to_json()),
        Target::Live => whole(StatusCode::OK, JSON, metadata::live_json(true)),
        Target::Ready => {
            let ready = context.shared.ready();
            whole(ready_status(ready), JSON, metadata::ready_json(ready))
        }
        Target::Model(model) => model_metadata(context, &model),
        Target::ModelReady(model) => model_ready(context, &model),
        Target::Metrics => return Call::Metrics,
        Target::OpenApi => whole(StatusCode::OK, JSON, Bytes::from_static(OPENAPI)),
        Target::Extension(extension) => return Call::Extension(extension, request),
    })
}

pub(crate) async fn finish(context: &LaneContext, call: Call) -> Reply {
    match call {
        Call::Infer(infer) => infer.finish(context).await,
        Call::Metrics => scrape(context).await,
        Call::Extension(extension, request) => {
            extensions::answer(context, extension, request).await.unwrap_or_else(|fault| refuse(&fault))
        }
        Call::Answered(reply) => reply,
    }
}

fn wrong_method(allowed: &'static str) -> Reply {
    let mut reply = error(StatusCode::METHOD_NOT_ALLOWED, &format!("use {allowed} here"));
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    reply
}

fn error(status: StatusCode, text: &str) -> Reply {
    whole(status, JSON, metadata::error_json(text))
}

fn ready_status(ready: bool) -> StatusCode {
    if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// What the server is and offers under its settings, in neutral form; the gRPC twin uses it too.
pub(crate) fn server_metadata(shared: &Shared) -> ServerMetadata {
    let config = &shared.config;
    let allowed =
        Allowed { model_control: config.allow_model_control, shared_memory: config.allow_shared_memory };
    ServerMetadata::new("flyball", build_info().version, allowed)
}

/// A model's metadata, in neutral form; the gRPC twin uses it too.
pub(crate) fn metadata_of(context: &LaneContext, wanted: &ModelRef) -> Result<ModelMetadata, Fault> {
    let routes = context.lane.plane.routes.load();
    let model = route(&routes, wanted)?;
    let versions = routes.get(&model.name).map(|deployment| &deployment.versions);
    let versions = versions.into_iter().flatten().map(|model| model.version.to_string()).collect();
    Ok(ModelMetadata::new(&model.name, versions, &model.signature.inputs, &model.signature.outputs))
}

/// Whether a model answers; a fault when it is not known here.
pub(crate) fn is_ready(shared: &Shared, wanted: &ModelRef) -> Result<bool, Fault> {
    match route(&shared.plane.routes.load(), wanted) {
        Ok(_) => Ok(shared.ready()),
        Err(fault) if fault.kind == FaultKind::ModelNotReady => Ok(false),
        Err(fault) => Err(fault),
    }
}

fn model_metadata(context: &LaneContext, model: &ModelRef) -> Reply {
    match metadata_of(context, model) {
        Ok(metadata) => whole(StatusCode::OK, JSON, metadata.to_json()),
        Err(fault) => refuse(&fault),
    }
}

fn model_ready(context: &LaneContext, model: &ModelRef) -> Reply {
    match is_ready(&context.shared, model) {
        Ok(ready) => whole(ready_status(ready), JSON, metadata::model_ready_json(&model.name, ready)),
        Err(fault) => refuse(&fault),
    }
}

fn refuse(fault: &Fault) -> Reply {
    error(StatusCode::from_u16(fault.kind.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &fault.text)
}

/// Asks for the page where it is written, off the lanes.
async fn scrape(context: &LaneContext) -> Reply {
    match aside(&context.shared, metrics).await {
        Ok(page) => whole(StatusCode::OK, "text/plain; version=0.0.4", page),
        Err(fault) => refuse(&fault),
    }
}

/// The page of metrics. Takes milliseconds where there are many models: not for a lane.
fn metrics(shared: &Shared) -> Bytes {
    let build = build_info();
    let facts = BuildFacts {
        version: build.version,
        commit: build.commit,
        profile: build.profile,
        ort: shared.ort_version.clone(),
    };
    let ort_log = flyball_engine::log_counts().map(|(severity, count)| (severity.label(), count)).to_vec();
    let backlogs = shared.plane.backlogs().collect();
    let gauges = Gauges { connections: shared.connections(), backlogs, ort_log };
    Bytes::from(shared.telemetry.render(&facts, &gauges))
}
