//! `/v1/outcomes`, `/v1/overrides`, `/v1/erasures`, `/v1/holds`, `/v1/journal` and `/v1/journal/seals`: the request is read,
//! and the answer written. What is kept, and who may ask for it, is decided in `crate::journal` and `crate::ledger`.

use super::path::Ledger;
use super::{JSON, cors};
use crate::body::{self, BodyPart};
use crate::callers::Visit;
use crate::journal::{self, Rights};
use crate::lane_thread::LaneContext;
use crate::ledger;
use crate::offload::offload;
use crate::reply::{Reply, whole};
use ::http::{Method, Request, StatusCode, Version};
use bytes::Bytes;
use flyball_core::{Fault, RecordKind, Verb};
use flyball_wire::annotations::{
    Erasure, HoldOrder, Override, Release, holds_json, nothing, outcomes, recorded_json, sealed_json,
};
use hyper::body::Incoming;

/// `near`: whether the connection comes from this machine.
pub(super) async fn answer(
    context: &LaneContext,
    ledger: Ledger,
    visit: &Visit,
    near: bool,
    request: Request<Incoming>,
) -> Result<Reply, Fault> {
    let rights = (&visit.access, near);
    match ledger {
        Ledger::Journal => {
            visit.access.require_all(Verb::Metrics)?;
            let facts = offload(&context.shared, journal::facts).await??;
            Ok(whole(StatusCode::OK, JSON, facts.to_json()))
        }
        Ledger::Seals => {
            let part = context.shared.bodies.part();
            nothing(&read(context, &part, request).await?)?;
            let sealed = journal::sealed(context, rights).await?;
            Ok(whole(StatusCode::OK, JSON, sealed_json(sealed.segment, &sealed.checkpoint)))
        }
        Ledger::Holds if request.method() != Method::POST => {
            Ok(whole(StatusCode::OK, JSON, holds_json(&ledger::holds(context, rights).await?)))
        }
        told => {
            let kind = kind(&told);
            let kept = keep(context, told, visit.name.as_deref(), rights, request).await;
            context.shared.annotations.count(kind, kept.is_ok());
            Ok(whole(StatusCode::OK, JSON, kept?))
        }
    }
}

fn kind(told: &Ledger) -> RecordKind {
    match told {
        Ledger::Overrides => RecordKind::Override,
        Ledger::Erasures => RecordKind::Erased,
        Ledger::Holds => RecordKind::Hold,
        Ledger::Hold(_) => RecordKind::Release,
        Ledger::Outcomes | Ledger::Journal | Ledger::Seals => RecordKind::Outcome,
    }
}

/// Records an annotation, and returns the answer.
async fn keep(
    context: &LaneContext,
    told: Ledger,
    caller: Option<&str>,
    rights: Rights<'_>,
    request: Request<Incoming>,
) -> Result<Bytes, Fault> {
    let part = context.shared.bodies.part();
    let body = read(context, &part, request).await?;
    match told {
        Ledger::Overrides => {
            journal::overridden(context, caller, rights, Override::from_json(&body)?).await.map(recorded_json)
        }
        Ledger::Erasures => {
            let erased = ledger::erased(context, caller, rights, Erasure::from_json(&body)?).await?;
            Ok(erased.to_json())
        }
        Ledger::Holds => {
            ledger::hold(context, rights, HoldOrder::from_json(&body)?).await?;
            Ok(recorded_json(1))
        }
        Ledger::Hold(name) => {
            ledger::released(context, rights, name.to_string(), Release::from_json(&body)?).await?;
            Ok(recorded_json(1))
        }
        Ledger::Outcomes | Ledger::Journal | Ledger::Seals => {
            journal::outcomes(context, caller, rights, outcomes(&body)?).await.map(recorded_json)
        }
    }
}

async fn read(
    context: &LaneContext,
    part: &BodyPart<'_>,
    request: Request<Incoming>,
) -> Result<Bytes, Fault> {
    let config = &context.shared.config;
    let foreign = cors::foreign(&config.cors_origins, request.headers());
    let http2 = request.version() == Version::HTTP_2;
    let body = body::read(request.into_body(), http2, config, part).await?;
    if foreign { Err(cors::refusal()) } else { Ok(body) }
}
