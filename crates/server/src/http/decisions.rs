//! `/v1/decisions`: the head's part in a request for decisions, then the walk; and what decisions there are. Refusals on this
//! part of the surface are problems (RFC 9457).

use super::infer::{body_coding, number, reply};
use super::{JSON, TIMEOUT};
use crate::callers::Visit;
use crate::decisions;
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, whole};
use crate::{body, coding};
use ::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Version, header};
use bytestring::ByteString;
use flyball_core::{Access, Fault, Nanos, Protocol};
use flyball_plane::{Arrival, DecisionRequest, Walk, serve};
use flyball_telemetry::LaneSink;
use flyball_wire::coding::Coding;
use flyball_wire::{DecisionFacts, HttpDecision, PROBLEM_JSON, Problem};
use hyper::body::Incoming;
use std::time::Duration;

pub(crate) static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Whether a path is of this part, whatever it names.
pub(super) fn is_ours(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A request for decisions whose head has been read, and which is counted from here on.
pub(crate) struct Decide {
    walk: Walk<LaneSink>,
    visit: Visit,
    name: ByteString,
    head: Result<Head, Fault>,
    body: Incoming,
    http2: bool,
}

impl Decide {
    pub(super) fn begin(
        context: &LaneContext,
        mut visit: Visit,
        name: ByteString,
        request: Request<Incoming>,
        lay_unread: Duration,
    ) -> Decide {
        let walk = context.begin_walk(Protocol::Http, &mut visit, request.headers(), lay_unread);
        let head = Head::read(request.headers(), &walk);
        let http2 = request.version() == Version::HTTP_2;
        Decide { walk, visit, name, head, body: request.into_body(), http2 }
    }

    pub(super) async fn finish(mut self, context: &LaneContext) -> Reply {
        let head = self.head.as_mut().ok();
        let (deadline, idempotency_key) =
            head.map_or((None, None), |head| (head.deadline, head.idempotency_key.take()));
        let (config, part) = (&context.shared.config, context.shared.bodies.part());
        let (_in_flight, standing) = self.visit.split();
        let body = async {
            // After its body, as for an inference: the client is then done writing and reads the refusal.
            let body = body::read_from(standing, self.body, self.http2, config, &part).await?;
            coding::inflated(self.head?.coding, body, config.body_bytes_max, &part).await
        };
        let dialect = HttpDecision { name: self.name, idempotency_key };
        let arrival = Arrival { walk: self.walk, body, deadline };
        reply(serve(&context.lane, &DecisionRequest(&dialect), arrival).await)
    }
}

struct Head {
    coding: Coding,
    deadline: Option<Nanos>,
    idempotency_key: Option<ByteString>,
}

impl Head {
    fn read(headers: &HeaderMap, walk: &Walk<LaneSink>) -> Result<Head, Fault> {
        let coding = body_coding(headers)?;
        let timeout = number(headers, &TIMEOUT)?.map(|ms| Duration::from_millis(ms as u64));
        let idempotency_key = idempotency_key(headers)?;
        Ok(Head { coding, deadline: walk.after(timeout), idempotency_key })
    }
}

/// The key of a request that may come again; over gRPC it is metadata of the same name.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<ByteString>, Fault> {
    const BYTES_MAX: usize = 256;
    let mut lines = headers.get_all(&IDEMPOTENCY_KEY).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    let sound = |text: &&str| (1..=BYTES_MAX).contains(&text.len());
    let key = line.to_str().ok().filter(sound).filter(|_| lines.next().is_none());
    key.map(|key| Some(key.into())).ok_or_else(|| {
        let text =
            format!("header {IDEMPOTENCY_KEY} is not one text of 1 to {BYTES_MAX} visible ASCII characters");
        Fault::malformed(text)
    })
}

pub(super) fn list(context: &LaneContext, access: &Access) -> Reply {
    whole(StatusCode::OK, JSON, DecisionFacts::list_json(&decisions::all(&context.shared, access)))
}

pub(super) fn describe(context: &LaneContext, access: &Access, name: &str) -> Reply {
    match decisions::named(&context.shared, access, name) {
        Ok(facts) => whole(StatusCode::OK, JSON, facts.to_json()),
        Err(fault) => refuse(&fault, Some(name)),
    }
}

/// A refusal that no walk counts.
pub(super) fn refuse(fault: &Fault, decision: Option<&str>) -> Reply {
    problem(&Problem::of(fault, decision))
}

pub(super) fn problem(problem: &Problem<'_>) -> Reply {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = whole(status, PROBLEM_JSON, problem.to_json());
    if let Some(seconds) = problem.retry_after_s() {
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lines: &[&'static [u8]]) -> Result<Option<ByteString>, Fault> {
        let value = |line: &&'static [u8]| HeaderValue::from_bytes(line).expect("a header's value");
        let lines = lines.iter().map(|line| (IDEMPOTENCY_KEY.clone(), value(line)));
        idempotency_key(&HeaderMap::from_iter(lines))
    }

    #[test]
    fn a_key_is_one_short_text_and_nothing_else() {
        assert_eq!(key(&[]), Ok(None));
        assert_eq!(key(&[b"8e03978e-40d5"]), Ok(Some("8e03978e-40d5".into())));
        assert_eq!(key(&[&[b'k'; 256]]), Ok(Some("k".repeat(256).into())));
        for lines in [&[&b""[..]][..], &[&[b'k'; 257]], &[b"a", b"a"], &["é".as_bytes()]] {
            assert!(key(lines).is_err(), "{lines:?}");
        }
    }

    #[test]
    fn only_the_paths_below_v1_are_of_this_part() {
        for (path, ours) in
            [("/v1", true), ("/v1/", true), ("/v1/x", true), ("/v10", false), ("/v2/v1", false), ("/", false)]
        {
            assert_eq!(is_ours(path), ours, "{path}");
        }
    }
}
