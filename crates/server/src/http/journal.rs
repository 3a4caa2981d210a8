//! `/v1/outcomes`, `/v1/overrides`, `/v1/erasures`, `/v1/holds`, `/v1/journal` and `/v1/journal/seals`.
//!
//! Decodes requests and encodes responses; `crate::journal` and `crate::legal` check rights and record.

use super::path::JournalTarget;
use super::{JSON, cors};
use crate::body::BodyPart;
use crate::callers::Visit;
use crate::journal::{self, Rights};
use crate::lane_thread::LaneContext;
use crate::legal;
use crate::offload::offload;
use crate::reply::{Reply, whole};
use ::http::{Method, Request, StatusCode, Version};
use bytes::Bytes;
use flyball_core::{Fault, RecordKind, Verb};
use flyball_wire::annotations::{
    Erasure, HoldOrder, Override, Release, holds_json, nothing, outcomes, recorded_json, sealed_json,
};
use flyball_wire::metadata::json;
use hyper::body::Incoming;

/// `near`: whether the connection comes from this machine.
pub(super) async fn answer(
    context: &LaneContext,
    target: JournalTarget,
    visit: &Visit,
    near: bool,
    request: Request<Incoming>,
) -> Result<Reply, Fault> {
    let rights = (&visit.access, near);
    match target {
        JournalTarget::State => {
            visit.access.require_all(Verb::Metrics)?;
            let facts = offload(&context.shared, journal::facts).await??;
            Ok(whole(StatusCode::OK, JSON, json(&facts)))
        }
        JournalTarget::Seals => {
            let part = context.shared.bodies.part();
            nothing(&read(context, &part, request).await?)?;
            let sealed = journal::sealed(context, rights).await?;
            Ok(whole(StatusCode::OK, JSON, sealed_json(sealed.segment, &sealed.checkpoint)))
        }
        JournalTarget::Holds if request.method() != Method::POST => {
            Ok(whole(StatusCode::OK, JSON, holds_json(&legal::holds(context, rights).await?)))
        }
        annotation => {
            let kind = kind(&annotation);
            let kept = keep(context, annotation, visit.name.as_deref(), rights, request).await;
            context.shared.annotations.count(kind, kept.is_ok());
            Ok(whole(StatusCode::OK, JSON, kept?))
        }
    }
}

fn kind(annotation: &JournalTarget) -> RecordKind {
    match annotation {
        JournalTarget::Overrides => RecordKind::Override,
        JournalTarget::Erasures => RecordKind::Erased,
        JournalTarget::Holds => RecordKind::Hold,
        JournalTarget::Hold(_) => RecordKind::Release,
        JournalTarget::Outcomes | JournalTarget::State | JournalTarget::Seals => RecordKind::Outcome,
    }
}

/// Records an annotation and returns the response.
async fn keep(
    context: &LaneContext,
    annotation: JournalTarget,
    caller: Option<&str>,
    rights: Rights<'_>,
    request: Request<Incoming>,
) -> Result<Bytes, Fault> {
    let part = context.shared.bodies.part();
    let body = read(context, &part, request).await?;
    match annotation {
        JournalTarget::Overrides => {
            journal::overridden(context, caller, rights, Override::from_json(&body)?).await.map(recorded_json)
        }
        JournalTarget::Erasures => {
            let erased = legal::erased(context, caller, rights, Erasure::from_json(&body)?).await?;
            Ok(json(&erased))
        }
        JournalTarget::Holds => {
            legal::hold(context, rights, HoldOrder::from_json(&body)?).await?;
            Ok(recorded_json(1))
        }
        JournalTarget::Hold(name) => {
            legal::released(context, rights, name.to_string(), Release::from_json(&body)?).await?;
            Ok(recorded_json(1))
        }
        JournalTarget::Outcomes | JournalTarget::State | JournalTarget::Seals => {
            journal::outcomes(context, caller, rights, outcomes(&body)?).await.map(recorded_json)
        }
    }
}

async fn read(
    context: &LaneContext,
    part: &BodyPart<'_>,
    request: Request<Incoming>,
) -> Result<Bytes, Fault> {
    let foreign = cors::foreign(&context.shared.config.cors_origins, request.headers());
    let http2 = request.version() == Version::HTTP_2;
    let body = part.read(Ok(()), request.into_body(), http2).await?;
    if foreign { Err(cors::refusal()) } else { Ok(body) }
}
