//! The HTTP API: V2 REST, decisions, health and metrics. Dispatches requests to their handlers.
//!
//! `walk.rs` handles inference and decisions, `journal.rs` annotations, `extensions.rs` Triton's extensions.

mod cors;
mod decisions;
mod extensions;
mod journal;
mod path;
mod response_options;
mod root;
mod walk;

use crate::ServerConfig;
use crate::body;
use crate::build::build_info;
use crate::callers::{Peer, Visit};
use crate::counted;
use crate::extensions::statistics;
use crate::lane_thread::LaneContext;
use crate::offload::offload;
use crate::reply::{Reply, whole};
use crate::shared::Shared;
use ::http::{HeaderName, HeaderValue, Method, Request, StatusCode, Version, header};
use bytes::Bytes;
use flyball_core::{Access, Fault, FaultKind, ModelRef, Protocol, Verb, triton_texts};
use flyball_deployments::Applied;
use flyball_plane::{exposed, ready, route};
use flyball_telemetry::{BuildFacts, Gauges, triton_page};
use flyball_wire::Problem;
use flyball_wire::metadata::{self, Allowed, ModelMetadata, ServerMetadata};
use hyper::body::{Body, Incoming};
use path::JournalTarget;
use response_options::ResponseOptions;
use std::time::Duration;
use walk::{Named, WalkRequest};

pub(crate) use decisions::idempotency_key;
pub(crate) use path::{Extension, Target};

const JSON: &str = "application/json";
/// A parsed name: a text would be copied for each request.
static TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout-ms");
/// The description of this API; `tests/contract/test_openapi.py` compares the two.
const OPENAPI: &[u8] = include_bytes!("http/openapi.json");

/// A request whose head has been read, and its options for the response.
pub(crate) struct Call {
    work: Work,
    options: ResponseOptions,
}

/// A walk, or any other request, which is answered from its head.
enum Work {
    Walk(WalkRequest),
    /// Holds the visit until it is answered: it counts towards the caller's limit of requests in flight.
    Metrics(fn(&Shared) -> Bytes, Visit),
    Extension(Extension, Visit, Request<Incoming>),
    /// The flag: whether it comes from this machine.
    Journal(JournalTarget, Visit, bool, Request<Incoming>),
    Answered(Reply),
    /// A request without a body whose stream its peer has not ended. Answered once it has.
    ///
    /// An earlier response would close the stream from this side, and later frames of the peer, such as a
    /// cancellation, could no longer be checked (RFC 9113, 5.1).
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
    unread: Duration,
) -> Call {
    let options = ResponseOptions::read(&context.shared.config, request.headers());
    let work = match options.preflight(&request) {
        Some(reply) => Work::Answered(reply),
        None if unended(&request) => Work::Unended(peer.clone(), request),
        None => routed(context, peer, request, unread),
    };
    Call { work, options }
}

/// Whether the peer may still send on the stream of a request whose body is not read.
fn unended(request: &Request<Incoming>) -> bool {
    if request.version() != Version::HTTP_2 || request.body().is_end_stream() {
        return false;
    }
    let read = path::target(request.uri().path()).is_some_and(|target| {
        target.allows(request.method()) && *request.method() != Method::GET && target.takes_a_body()
    });
    !read
}

fn routed(context: &LaneContext, peer: &Peer, request: Request<Incoming>, unread: Duration) -> Work {
    let target = path::target(request.uri().path());
    let ours = decisions::is_ours(request.uri().path());
    let open = matches!(target, Some(Target::Live | Target::Ready));
    let visit = if open { Visit::open() } else { context.visit(peer, request.headers()) };
    let visit = visit.if_allowed(context.shared.restricted.http(target.as_ref(), request.headers()));
    let walks = match target {
        Some(Target::Infer(_)) => true,
        Some(Target::Decision(_)) => request.method() == Method::POST,
        _ => false,
    };
    // A walk is refused inside, so that it is counted.
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
            return Work::Walk(WalkRequest::begin(context, visit, Named::Model(model), request, unread));
        }
        Target::Decision(name) if walks => {
            return Work::Walk(WalkRequest::begin(context, visit, Named::Decision(name), request, unread));
        }
        Target::Decisions => decisions::list(context, &visit.access),
        Target::Decision(name) => decisions::describe(context, &visit.access, &name),
        Target::Root => root_page(&context.shared, &visit.access),
        Target::Deployments => deployments(&context.shared, &visit.access),
        Target::Server => whole(StatusCode::OK, JSON, metadata::json(&server_metadata(&context.shared))),
        Target::Live => whole(StatusCode::OK, JSON, metadata::live_json(true)),
        Target::Ready => {
            let ready = context.shared.ready();
            whole(ready_status(ready), JSON, metadata::ready_json(ready))
        }
        Target::Models => models(&context.shared, &visit.access),
        Target::Model(model) => refuse_or(metadata_of(context, &visit.access, &model), |found| {
            whole(StatusCode::OK, JSON, metadata::json(&found))
        }),
        Target::ModelReady(model) => model_ready(&context.shared, &visit.access, &model),
        Target::Metrics | Target::TritonMetrics => match visit.access.require_all(Verb::Metrics) {
            Ok(()) if target == Target::Metrics => return Work::Metrics(metrics, visit),
            Ok(()) => return Work::Metrics(triton_metrics, visit),
            Err(fault) => refuse(&fault),
        },
        Target::OpenApi => whole(StatusCode::OK, JSON, Bytes::from_static(OPENAPI)),
        Target::Extension(extension) => return Work::Extension(extension, visit, request),
        Target::Journal(target) => return Work::Journal(target, visit, peer.near, request),
    })
}

/// Whether a request outside a walk may be answered.
///
/// Its caller must be known, within its limits, and have a right.
fn may_ask(visit: &Visit) -> Result<(), Fault> {
    match &visit.admitted {
        Ok(_) => visit.access.require_any(),
        Err(fault) => Err((**fault).clone()),
    }
}

pub(crate) async fn finish(context: &LaneContext, mut call: Call) -> Reply {
    if let Work::Unended(peer, mut request) = call.work {
        let ended = body::skip(request.body_mut(), &context.shared.config).await;
        call.work = match ended {
            Ok(()) => routed(context, &peer, request, Duration::ZERO),
            Err(fault) => Work::Answered(refuse(&fault)),
        };
    }
    // Triton compresses inference alone, and its clients expect no compression elsewhere, whatever their library
    // accepts.
    let walks = matches!(call.work, Work::Walk(_));
    let options =
        if walks || matches!(call.work, Work::Metrics(..)) { call.options } else { call.options.uncoded() };
    let reply = match call.work {
        Work::Walk(request) => request.finish(context).await,
        Work::Metrics(page, _visit) => refuse_or(offload(&context.shared, page).await, |page| {
            whole(StatusCode::OK, "text/plain; version=0.0.4", page)
        }),
        Work::Extension(extension, visit, request) => {
            let answered = extensions::answer(context, extension, &visit.access, request).await;
            drop(visit);
            answered.unwrap_or_else(|fault| refuse(&fault))
        }
        Work::Journal(target, visit, near, request) => {
            let answered = journal::answer(context, target, &visit, near, request).await;
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

/// An error: a problem under `/v1`, elsewhere in V2's form.
fn error(ours: bool, status: StatusCode, text: &str) -> Reply {
    if ours {
        return decisions::problem(&Problem::plain(status.as_u16(), text));
    }
    whole(status, JSON, metadata::error_json(text))
}

/// The reply to a malformed head. Closes the connection: the boundary of the next request is unknown.
pub(crate) fn malformed(status: StatusCode, text: &str) -> Reply {
    let mut reply = error(false, status, text);
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    reply
}

fn ready_status(ready: bool) -> StatusCode {
    if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// The server's metadata under its settings; shared with gRPC.
pub(crate) fn server_metadata(shared: &Shared) -> ServerMetadata {
    let config = &shared.config;
    let allowed =
        Allowed { model_control: config.allow_model_control, shared_memory: config.allow_shared_memory };
    ServerMetadata::new(&config.server_name, build_info().version, allowed)
}

/// A model's metadata; shared with gRPC.
pub(crate) fn metadata_of(
    context: &LaneContext,
    access: &Access,
    wanted: &ModelRef,
) -> Result<ModelMetadata, Fault> {
    let routes = context.lane.plane.routes.load();
    let model = route(&routes, access, wanted)?;
    let versions = routes.get(&model.name).map(|deployment| &deployment.versions);
    let versions = versions.into_iter().flatten().map(|model| model.version.to_string()).collect();
    let signature = model.client_signature();
    Ok(ModelMetadata::new(&model.name, versions, &signature.inputs, &signature.outputs))
}

/// Whether a model is ready; a fault if it is unknown.
pub(crate) fn is_ready(shared: &Shared, access: &Access, wanted: &ModelRef) -> Result<bool, Fault> {
    match ready(&shared.plane.routes.load(), access, wanted) {
        Ok(_) => Ok(shared.serving()),
        Err(fault) if fault.kind == FaultKind::ModelNotReady => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// As in Triton, 400 with the reason for a model that was refused or unloaded: waiting does not help.
fn model_ready(shared: &Shared, access: &Access, wanted: &ModelRef) -> Reply {
    let routes = shared.plane.routes.load();
    let loading = || routes.absence(&wanted.name).is_some_and(|absence| absence.loading);
    let ready = match ready(&routes, access, wanted) {
        Ok(_) => shared.serving(),
        Err(fault) if fault.kind != FaultKind::ModelNotReady => return refuse(&fault),
        Err(_) if loading() => false,
        Err(fault) => return error(false, StatusCode::BAD_REQUEST, &fault.text),
    };
    whole(ready_status(ready), JSON, metadata::model_ready_json(&wanted.name, ready))
}

/// The names of the models that the caller may see and that take tensors.
fn models(shared: &Shared, access: &Access) -> Reply {
    let routes = shared.plane.routes.load();
    let names = routes.deployments().map(|deployment| deployment.name.as_str());
    let mut names: Vec<&str> = names.filter(|name| exposed(&routes, access, name).is_ok()).collect();
    names.sort_unstable();
    whole(StatusCode::OK, JSON, metadata::models_json(&names))
}

/// The status of the deployments that the caller may see.
fn deployments(shared: &Shared, access: &Access) -> Reply {
    whole(StatusCode::OK, JSON, metadata::json(&seen_by(shared, access)))
}

fn root_page(shared: &Shared, access: &Access) -> Reply {
    let page = root::page(&seen_by(shared, access), build_info().version);
    let mut reply = whole(StatusCode::OK, "text/html; charset=utf-8", page);
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    reply
}

fn seen_by(shared: &Shared, access: &Access) -> Applied {
    let mut applied = Applied::clone(&shared.applied());
    applied.deployments.retain(|deployment| access.sees(&deployment.name));
    applied
}

fn refuse_or<T>(found: Result<T, Fault>, answer: impl FnOnce(T) -> Reply) -> Reply {
    found.map_or_else(|fault| refuse(&fault), answer)
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

/// A body above the limit, in Triton's words for JSON; other faults unchanged. `bytes`: its size, as far as announced.
fn json_too_large(fault: Fault, bytes: u64, config: &ServerConfig) -> Fault {
    if fault.kind != FaultKind::BodyTooLarge {
        return fault;
    }
    let most = config.body_bytes_max;
    let text = triton_texts::json_too_large(bytes.max(most as u64 + 1), most);
    Fault { text: format!("{text} (setting body_bytes_max)").into(), ..fault }
}

/// The same measurements under Triton's names.
fn triton_metrics(shared: &Shared) -> Bytes {
    Bytes::from(triton_page(&statistics::of_every_model(shared)))
}

/// The metrics page. Takes milliseconds with many models, so it is offloaded.
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
