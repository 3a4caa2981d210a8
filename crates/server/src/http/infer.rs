//! `POST …/infer`: the head's part in a request, then the walk.

use super::TIMEOUT;
use crate::callers::Visit;
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, whole};
use crate::{body, coding};
use ::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Version, header};
use flyball_core::{Fault, FaultKind, ModelRef, Nanos, Protocol, Stage};
use flyball_plane::{Arrival, Inference, Walk, serve};
use flyball_telemetry::LaneSink;
use flyball_wire::coding::{CODINGS, Coding};
use flyball_wire::{HttpDialect, HttpReply};
use hyper::body::Incoming;
use std::time::Duration;

// As names, and not as texts, which would be copied into each reply.
static HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// An inference request whose head has been read, and which is counted from here on.
pub(crate) struct Infer {
    walk: Walk<LaneSink>,
    visit: Visit,
    model: ModelRef,
    head: Result<Head, Fault>,
    body: Incoming,
    http2: bool,
}

impl Infer {
    pub(super) fn begin(
        context: &LaneContext,
        mut visit: Visit,
        model: ModelRef,
        request: Request<Incoming>,
        lay_unread: Duration,
    ) -> Infer {
        let walk = context.begin_walk(Protocol::Http, &mut visit, request.headers(), lay_unread);
        let head = Head::read(request.headers(), &walk);
        let http2 = request.version() == Version::HTTP_2;
        Infer { walk, visit, model, head, body: request.into_body(), http2 }
    }

    pub(super) async fn finish(self, context: &LaneContext) -> Reply {
        let (header_length, deadline) =
            self.head.as_ref().map_or((None, None), |head| (head.header_length, head.deadline));
        let (config, part) = (&context.shared.config, context.shared.bodies.part());
        let (_in_flight, standing) = self.visit.split();
        let body = async {
            // A head that cannot be used is refused inside the walk, so that it is counted like everything else, and
            // after its body, so that the client is done writing and reads the refusal.
            let body = body::read_from(standing, self.body, self.http2, config, &part).await?;
            coding::inflated(self.head?.coding, body, config.body_bytes_max, &part).await
        };
        let dialect =
            HttpDialect { model: self.model, header_length, regions: context.shared.regions.clone() };
        reply(serve(&context.lane, &Inference(&dialect), Arrival { walk: self.walk, body, deadline }).await)
    }
}

struct Head {
    coding: Coding,
    header_length: Option<usize>,
    deadline: Option<Nanos>,
}

impl Head {
    fn read(headers: &HeaderMap, walk: &Walk<LaneSink>) -> Result<Head, Fault> {
        let coding = body_coding(headers)?;
        let header_length = number(headers, &HEADER_LENGTH)?;
        let timeout = number(headers, &TIMEOUT)?.map(|ms| Duration::from_millis(ms as u64));
        Ok(Head { coding, header_length, deadline: walk.after(timeout) })
    }
}

pub(super) fn body_coding(headers: &HeaderMap) -> Result<Coding, Fault> {
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

pub(super) fn number(headers: &HeaderMap, name: &HeaderName) -> Result<Option<usize>, Fault> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| Fault::malformed(format!("header {name} is not a whole number")))
}

pub(super) fn reply(reply: HttpReply) -> Reply {
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
