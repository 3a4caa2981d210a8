//! `/v1/outcomes`, `/v1/overrides`, `/v1/erasures`, `/v1/journal` and `/v1/journal/seals`: the request is read, and the answer
//! written. What is kept, and who may ask for it, is decided in `crate::journal`.

use super::path::Ledger;
use super::{JSON, cors};
use crate::body::{self, BodyPart};
use crate::callers::Visit;
use crate::errands::aside;
use crate::journal;
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, whole};
use ::http::{Request, StatusCode, Version};
use bytes::Bytes;
use flyball_core::{EntryKind, Fault, Verb};
use flyball_wire::told::{Erasure, Override, nothing, outcomes, recorded_json, sealed_json};
use hyper::body::Incoming;

/// `near`: whether the connection comes from this machine.
pub(super) async fn answer(
    context: &LaneContext,
    ledger: Ledger,
    visit: &Visit,
    near: bool,
    request: Request<Incoming>,
) -> Result<Reply, Fault> {
    let kind = match ledger {
        Ledger::Journal => {
            visit.access.demand_all(Verb::Metrics)?;
            let facts = aside(&context.shared, journal::facts).await??;
            return Ok(whole(StatusCode::OK, JSON, facts.to_json()));
        }
        Ledger::Seals => {
            let part = context.shared.bodies.part();
            nothing(&read(context, &part, request).await?)?;
            let sealed = journal::sealed(context, (&visit.access, near)).await?;
            return Ok(whole(StatusCode::OK, JSON, sealed_json(sealed.segment, &sealed.checkpoint)));
        }
        Ledger::Outcomes => EntryKind::Outcome,
        Ledger::Overrides => EntryKind::Override,
        Ledger::Erasures => EntryKind::Erased,
    };
    let kept = keep(context, kind, visit, near, request).await;
    context.shared.tellings.count(kind, kept.is_ok());
    Ok(whole(StatusCode::OK, JSON, recorded_json(kept?)))
}

async fn keep(
    context: &LaneContext,
    kind: EntryKind,
    visit: &Visit,
    near: bool,
    request: Request<Incoming>,
) -> Result<usize, Fault> {
    let part = context.shared.bodies.part();
    let body = read(context, &part, request).await?;
    let (caller, rights) = (visit.name.as_deref(), (&visit.access, near));
    match kind {
        EntryKind::Outcome => journal::outcomes(context, caller, rights, outcomes(&body)?).await,
        EntryKind::Override => {
            journal::overridden(context, caller, rights, Override::from_json(&body)?).await
        }
        _ => journal::erased(context, caller, rights, Erasure::from_json(&body)?).await,
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
