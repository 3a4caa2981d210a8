//! Triton's extensions over HTTP: decodes requests and writes JSON responses.
//!
//! `crate::extensions` computes them.

use super::path::{Extension, MemoryVerb};
use super::{JSON, cors, json_too_large, whole};
use crate::extensions::{configuration, logging, repository, shared_memory, statistics, trace};
use crate::lane_thread::LaneContext;
use crate::reply::Reply;
use crate::shared::Shared;
use ::http::{Request, StatusCode, Version};
use bytes::Bytes;
use flyball_core::{Access, Fault};
use flyball_wire::repository::{ControlRequest, Index, IndexRequest};
use flyball_wire::shared_memory::{RegisterRequest, Status};
use flyball_wire::statistics::Statistics;
use hyper::body::{Body, Incoming};

/// The body of a response without content.
const NOTHING: Bytes = Bytes::new();

pub(super) async fn answer(
    context: &LaneContext,
    extension: Extension,
    access: &Access,
    request: Request<Incoming>,
) -> Result<Reply, Fault> {
    let shared = &context.shared;
    let foreign = cors::foreign(&shared.config.cors_origins, request.headers());
    let http2 = request.version() == Version::HTTP_2;
    // Reads a body that is not needed as well: a client that is still writing would not read the response.
    let part = shared.bodies.part();
    let bytes = request.body().size_hint().lower();
    let body = part.read(Ok(()), request.into_body(), http2).await;
    let body = body.map_err(|fault| json_too_large(fault, bytes, &shared.config))?;
    if foreign && extension.changes() {
        return Err(cors::refusal());
    }
    let page = match extension {
        Extension::Statistics(model) => statistics::of(shared, access, model, Statistics::to_json).await?,
        Extension::Configuration(model) => configuration::of(shared, access, &model)?.to_json(),
        Extension::Index => {
            repository::index(shared, access, IndexRequest::from_json(&body)?, Index::to_json).await?
        }
        Extension::Load(model) => {
            repository::load(shared, access, &model, ControlRequest::from_json(&body)?).await?;
            NOTHING
        }
        Extension::Unload(model) => {
            ControlRequest::from_json(&body)?;
            repository::unload(shared, access, &model).await?;
            NOTHING
        }
        Extension::Memory { cuda: false, region, verb } => {
            memory(shared, access, region.as_deref(), verb, &body).await?
        }
        Extension::Memory { cuda: true, verb, .. } => match verb {
            MemoryVerb::Status => Status::default().to_json(),
            MemoryVerb::Unregister => NOTHING,
            MemoryVerb::Register => return Err(shared_memory::register_cuda()),
        },
        Extension::Trace => return Err(trace()),
        Extension::Logging => return Err(logging()),
    };
    Ok(whole(StatusCode::OK, JSON, page))
}

async fn memory(
    shared: &Shared,
    access: &Access,
    region: Option<&str>,
    verb: MemoryVerb,
    body: &Bytes,
) -> Result<Bytes, Fault> {
    match verb {
        MemoryVerb::Status => return Ok(shared_memory::status(shared, access, region)?.to_json()),
        MemoryVerb::Unregister => shared_memory::unregister(shared, access, region)?,
        MemoryVerb::Register => {
            let request = RegisterRequest::from_json(body)?;
            shared_memory::register(shared, access, region.unwrap_or_default(), request).await?;
        }
    }
    Ok(NOTHING)
}
