//! Inference and decision requests over HTTP: the head, then the walk.

use super::decisions::idempotency_key;
use super::{TIMEOUT, json_too_large};
use crate::callers::Visit;
use crate::coding;
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, whole};
use ::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Version, header};
use bytestring::ByteString;
use flyball_core::{Fault, FaultKind, ModelRef, Nanos, Protocol, Stage};
use flyball_plane::{Arrival, DecisionRequest, Inference, Walk, serve};
use flyball_telemetry::LaneSink;
use flyball_wire::coding::{CODINGS, Coding};
use flyball_wire::{HttpDecision, HttpDialect, HttpReply};
use hyper::body::{Body, Incoming};
use std::time::Duration;

// A parsed name: a text would be copied into each reply.
static HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// The model or decision that a path names.
pub(super) enum Named {
    Model(ModelRef),
    Decision(ByteString),
}

/// A request whose head has been read; counted from here on.
pub(crate) struct WalkRequest {
    walk: Walk<LaneSink>,
    visit: Visit,
    named: Named,
    head: Result<Head, Fault>,
    body: Incoming,
    http2: bool,
}

#[derive(Default)]
struct Head {
    coding: Coding,
    deadline: Option<Nanos>,
    /// Only for models.
    header_length: Option<usize>,
    /// Only for decisions.
    idempotency_key: Option<ByteString>,
}

impl WalkRequest {
    pub(super) fn begin(
        context: &LaneContext,
        mut visit: Visit,
        named: Named,
        request: Request<Incoming>,
        unread: Duration,
    ) -> WalkRequest {
        let walk = context.begin_walk(Protocol::Http, &mut visit, request.headers(), unread);
        let head = Head::read(request.headers(), &named, &walk);
        let http2 = request.version() == Version::HTTP_2;
        WalkRequest { walk, visit, named, head, body: request.into_body(), http2 }
    }

    pub(super) async fn finish(mut self, context: &LaneContext) -> Reply {
        let head = self.head.as_mut().map(std::mem::take).unwrap_or_default();
        let (config, part) = (&context.shared.config, context.shared.bodies.part());
        let (_in_flight, admitted) = self.visit.split();
        let body = async {
            // A malformed head is refused inside the walk, so that it is counted, and after its body, so that the
            // client is done writing and reads the refusal.
            let bytes = self.body.size_hint().lower();
            let body = part.read(admitted, self.body, self.http2).await;
            let json = matches!((head.coding, head.header_length), (Coding::Identity, None));
            let body =
                body.map_err(|fault| if json { json_too_large(fault, bytes, config) } else { fault })?;
            self.head?;
            coding::inflated(head.coding, body, config.body_bytes_max, &part).await
        };
        let arrival = Arrival { walk: self.walk, body, deadline: head.deadline };
        reply(match self.named {
            Named::Model(model) => {
                let (header_length, regions) = (head.header_length, context.shared.regions.clone());
                let (strict_json, triton_statuses) = (config.strict_json, config.triton_statuses);
                let dialect = HttpDialect { model, header_length, regions, strict_json, triton_statuses };
                serve(&context.lane, &Inference(&dialect), arrival).await
            }
            Named::Decision(name) => {
                let dialect = HttpDecision { name, idempotency_key: head.idempotency_key };
                serve(&context.lane, &DecisionRequest(&dialect), arrival).await
            }
        })
    }
}

impl Head {
    fn read(headers: &HeaderMap, named: &Named, walk: &Walk<LaneSink>) -> Result<Head, Fault> {
        let decides = matches!(named, Named::Decision(_));
        let coding = body_coding(headers)?;
        let header_length = if decides { None } else { number(headers, &HEADER_LENGTH)? };
        let timeout = number(headers, &TIMEOUT)?.map(|ms| Duration::from_millis(ms as u64));
        let idempotency_key = if decides { idempotency_key(headers)? } else { None };
        Ok(Head { coding, deadline: walk.after(timeout), header_length, idempotency_key })
    }
}

fn body_coding(headers: &HeaderMap) -> Result<Coding, Fault> {
    let mut lines = headers.get_all(header::CONTENT_ENCODING).iter();
    let Some(line) = lines.next() else { return Ok(Coding::Identity) };
    let coding = line.to_str().ok().and_then(Coding::named).filter(|_| lines.next().is_none());
    coding.ok_or_else(|| {
        let text = format!(
            "a body in Content-Encoding {line:?} is not supported; send it as it is, or in one of {CODINGS}"
        );
        Fault::new(FaultKind::Unsupported, Stage::Parse, text)
    })
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Result<Option<usize>, Fault> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Fault::malformed(format!("header {name} is not a whole number")))
}

fn reply(reply: HttpReply) -> Reply {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = whole(status, reply.content_type, reply.body);
    if let Some(length) = reply.header_length {
        response.headers_mut().insert(&HEADER_LENGTH, HeaderValue::from(length));
    }
    if let Some(seconds) = reply.retry_after_s {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
