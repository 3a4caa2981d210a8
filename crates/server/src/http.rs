//! The HTTP surface: V2 REST, decisions, health and metrics. Requests are dispatched here; inference goes to `infer.rs`,
//! decisions to `decisions.rs`, their annotations to `journal.rs`, Triton's extensions to `extensions.rs`.

mod cors;
mod decisions;
mod extensions;
mod infer;
mod journal;
mod path;
mod response_options;

use crate::body;
use crate::build::build_info;
use crate::callers::{Peer, Visit};
use crate::counted;
use crate::lane_thread::LaneContext;
use crate::offload::offload;
use crate::reply::{Reply, whole};
use crate::shared::Shared;
use ::http::{HeaderName, HeaderValue, Method, Request, StatusCode, Version, header};
use bytes::Bytes;
use flyball_core::{Access, Fault, FaultKind, ModelRef, Protocol, Verb};
use flyball_deployments::Applied;
use flyball_plane::{ready, route};
use flyball_telemetry::{BuildFacts, Gauges};
use flyball_wire::Problem;
use flyball_wire::metadata::{self, Allowed, ModelMetadata, ServerMetadata};
use hyper::body::{Body, Incoming};
use path::{Extension, Ledger, Target};
use response_options::ResponseOptions;
use std::time::Duration;

pub(crate) use decisions::idempotency_key;

const JSON: &str = "application/json";
/// As a name, and not as a text, which would be copied into each request.
static TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout-ms");
/// Of this very surface; `tests/contract/test_openapi.py` holds the two together.
const OPENAPI: &[u8] = include_bytes!("http/openapi.json");

/// A request whose head has been read, and what its caller options of the answer.
pub(crate) struct Call {
    work: Work,
    options: ResponseOptions,
}

/// An inference or a decision that walks, or anything else, which is answered from the head.
enum Work {
    Infer(infer::Infer),
    Decide(decisions::Decide),
    /// Held until it is answered, like an inference: its caller may have only so many at once.
    Metrics(Visit),
    Extension(Extension, Visit, Request<Incoming>),
    /// With whether it comes from this machine.
    Ledger(Ledger, Visit, bool, Request<Incoming>),
    Answered(Reply),
    /// A request that takes no body, and whose stream its peer has not ended. Answered once it has: an answer before would end the stream from
    /// this side, and what the peer still says of it, say that it cancels, could no longer be judged (RFC 9113, 5.1).
    Unended(Peer, Request<Incoming>),
}

impl Call {
    pub(crate) fn needs_http2() -> Call {
        let reply = error(false, StatusCode::HTTP_VERSION_NOT_SUPPORTED, "gRPC needs HTTP/2");
        Call { work: Work::Answered(reply), options: ResponseOptions::default() }
    }
}

pub(crate) fn enter(
    context: &LaneContext,
    peer: &Peer,
    request: Request<Incoming>,
    lay_unread: Duration,
) -> Call {
    let options = ResponseOptions::read(&context.shared.config, request.headers());
    let work = match options.preflight(&request) {
        Some(reply) => Work::Answered(reply),
        None if unended(&request) => Work::Unended(peer.clone(), request),
        None => routed(context, peer, request, lay_unread),
    };
    Call { work, options }
}

/// Whether a request's stream is open from its peer's side, and nobody will read what comes on it.
fn unended(request: &Request<Incoming>) -> bool {
    if request.version() != Version::HTTP_2 || request.body().is_end_stream() {
        return false;
    }
    let read = path::target(request.uri().path()).is_some_and(|target| {
        target.allows(request.method()) && *request.method() != Method::GET && target.takes_a_body()
    });
    !read
}

fn routed(context: &LaneContext, peer: &Peer, request: Request<Incoming>, lay_unread: Duration) -> Work {
    let target = path::target(request.uri().path());
    let ours = decisions::is_ours(request.uri().path());
    let open = matches!(target, Some(Target::Live | Target::Ready));
    let visit = if open { Visit::open() } else { context.visit(peer, request.headers()) };
    let walks = match target {
        Some(Target::Infer(_)) => true,
        Some(Target::Decision(_)) => request.method() == Method::POST,
        _ => false,
    };
    // What walks is refused inside its walk, so that it is counted.
    if let (Err(fault), false) = (may_ask(&visit), walks) {
        return Work::Answered(if ours { decisions::refuse(&fault, None) } else { refuse(&fault) });
    }
    let Some(target) = target else {
        return Work::Answered(error(ours, StatusCode::NOT_FOUND, "Not Found"));
    };
    if !target.allows(request.method()) {
        return Work::Answered(wrong_method(ours, target.allowed()));
    }
    Work::Answered(match target {
        Target::Infer(model) => {
            return Work::Infer(infer::Infer::begin(context, visit, model, request, lay_unread));
        }
        Target::Decision(name) if walks => {
            return Work::Decide(decisions::Decide::begin(context, visit, name, request, lay_unread));
        }
        Target::Decisions => decisions::list(context, &visit.access),
        Target::Decision(name) => decisions::describe(context, &visit.access, &name),
        Target::Deployments => deployments(&context.shared, &visit.access),
        Target::Server => whole(StatusCode::OK, JSON, server_metadata(&context.shared).to_json()),
        Target::Live => whole(StatusCode::OK, JSON, metadata::live_json(true)),
        Target::Ready => {
            let ready = context.shared.ready();
            whole(ready_status(ready), JSON, metadata::ready_json(ready))
        }
        Target::Model(model) => model_metadata(context, &visit.access, &model),
        Target::ModelReady(model) => model_ready(context, &visit.access, &model),
        Target::Metrics => match visit.access.require_all(Verb::Metrics) {
            Ok(()) => return Work::Metrics(visit),
            Err(fault) => refuse(&fault),
        },
        Target::OpenApi => whole(StatusCode::OK, JSON, Bytes::from_static(OPENAPI)),
        Target::Extension(extension) => return Work::Extension(extension, visit, request),
        Target::Ledger(ledger) => return Work::Ledger(ledger, visit, peer.near, request),
    })
}

/// Whether a request that does not walk may be answered at all: its caller must be known, within its limits, and have a right.
fn may_ask(visit: &Visit) -> Result<(), Fault> {
    match &visit.standing {
        Ok(_) => visit.access.require_any(),
        Err(fault) => Err((**fault).clone()),
    }
}

pub(crate) async fn finish(context: &LaneContext, mut call: Call) -> Reply {
    if let Work::Unended(peer, mut request) = call.work {
        let ended = body::pass_over(request.body_mut(), &context.shared.config).await;
        call.work = match ended {
            Ok(()) => routed(context, &peer, request, Duration::ZERO),
            Err(fault) => Work::Answered(refuse(&fault)),
        };
    }
    // Triton compresses inference alone, and its clients do not look for it elsewhere, whatever their library accepts.
    let (options, walks) = match &call.work {
        Work::Infer(_) | Work::Decide(_) => (call.options, true),
        Work::Metrics(_) => (call.options, false),
        Work::Extension(..) | Work::Ledger(..) | Work::Answered(_) | Work::Unended(..) => {
            (call.options.uncoded(), false)
        }
    };
    let reply = match call.work {
        Work::Infer(infer) => infer.finish(context).await,
        Work::Decide(decide) => decide.finish(context).await,
        Work::Metrics(_visit) => scrape(context).await,
        Work::Extension(extension, visit, request) => {
            let answered = extensions::answer(context, extension, &visit.access, request).await;
            drop(visit);
            answered.unwrap_or_else(|fault| refuse(&fault))
        }
        Work::Ledger(ledger, visit, near, request) => {
            let answered = journal::answer(context, ledger, &visit, near, request).await;
            drop(visit);
            answered.unwrap_or_else(|fault| decisions::refuse(&fault, None))
        }
        Work::Answered(reply) => reply,
        Work::Unended(..) => error(false, StatusCode::BAD_REQUEST, "the body did not end"),
    };
    if !walks {
        context.shared.refused_queries.count(Protocol::Http, &reply);
    }
    options.apply(&context.shared.config, reply).await
}

fn wrong_method(ours: bool, allowed: &'static str) -> Reply {
    let mut reply = error(ours, StatusCode::METHOD_NOT_ALLOWED, &format!("use {allowed} here"));
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    reply
}

/// On our own part of the surface a problem, elsewhere as V2 has it.
fn error(ours: bool, status: StatusCode, text: &str) -> Reply {
    if ours {
        return decisions::problem(&Problem::plain(status.as_u16(), text));
    }
    whole(status, JSON, metadata::error_json(text))
}

/// To a request whose head is refused. Its connection ends: what follows may be part of it, or of another.
pub(crate) fn malformed(status: StatusCode, text: &str) -> Reply {
    let mut reply = error(false, status, text);
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    reply
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
pub(crate) fn metadata_of(
    context: &LaneContext,
    access: &Access,
    wanted: &ModelRef,
) -> Result<ModelMetadata, Fault> {
    let routes = context.lane.plane.routes.load();
    let model = route(&routes, access, wanted)?;
    let versions = routes.get(&model.name).map(|deployment| &deployment.versions);
    let versions = versions.into_iter().flatten().map(|model| model.version.to_string()).collect();
    Ok(ModelMetadata::new(&model.name, versions, &model.signature.inputs, &model.signature.outputs))
}

/// Whether a model answers; a fault when it is not known here.
pub(crate) fn is_ready(shared: &Shared, access: &Access, wanted: &ModelRef) -> Result<bool, Fault> {
    match ready(&shared.plane.routes.load(), access, wanted) {
        Ok(_) => Ok(shared.ready()),
        Err(fault) if fault.kind == FaultKind::ModelNotReady => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// What the last snapshots came to, of deployments that the caller may see.
fn deployments(shared: &Shared, access: &Access) -> Reply {
    let mut applied = Applied::clone(&shared.applied());
    applied.deployments.retain(|deployment| access.sees(&deployment.name));
    whole(StatusCode::OK, JSON, Bytes::from(serde_json::to_vec(&applied).unwrap_or_default()))
}

fn model_metadata(context: &LaneContext, access: &Access, model: &ModelRef) -> Reply {
    match metadata_of(context, access, model) {
        Ok(metadata) => whole(StatusCode::OK, JSON, metadata.to_json()),
        Err(fault) => refuse(&fault),
    }
}

fn model_ready(context: &LaneContext, access: &Access, model: &ModelRef) -> Reply {
    match is_ready(&context.shared, access, model) {
        Ok(ready) => whole(ready_status(ready), JSON, metadata::model_ready_json(&model.name, ready)),
        Err(fault) => refuse(&fault),
    }
}

fn refuse(fault: &Fault) -> Reply {
    let status = StatusCode::from_u16(fault.kind.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = error(false, status, &fault.text);
    if let Some(wait) = fault.retry_after {
        let seconds = wait.as_secs().saturating_add(1);
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

/// Asks for the page where it is written, off the lanes.
async fn scrape(context: &LaneContext) -> Reply {
    match offload(&context.shared, metrics).await {
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
    let ort_log = flyball_engine::log_counts().to_vec();
    let backlogs = shared.plane.backlogs().collect();
    let families = counted::families(shared);
    let spreads = vec![crate::journal::spread(shared)];
    let gauges = Gauges { connections: shared.connections(), backlogs, ort_log, families, spreads };
    Bytes::from(shared.telemetry.render(&facts, &gauges))
}
