//! `ModelInfer` and `Decide`: the head of the call, then the walk.

use super::{encoding, framed, refused};
use crate::callers::Visit;
use crate::http::idempotency_key;
use crate::lane_thread::LaneContext;
use crate::reply::Reply;
use ::http::{HeaderMap, Request};
use bytestring::ByteString;
use flyball_core::{Fault, Nanos, Protocol};
use flyball_plane::{Arrival, DecisionRequest, Inference, Walk, serve};
use flyball_telemetry::LaneSink;
use flyball_wire::coding::Coding;
use flyball_wire::{GrpcDecision, GrpcDialect, GrpcReply, frame};
use hyper::body::Incoming;
use std::time::Duration;

/// A call whose head has been read; counted from here on.
pub(crate) struct WalkCall {
    walk: Walk<LaneSink>,
    visit: Visit,
    /// `Decide`, else `ModelInfer`.
    decides: bool,
    head: Result<Head, Fault>,
    body: Incoming,
}

#[derive(Default)]
struct Head {
    deadline: Option<Nanos>,
    coding: Coding,
    /// Only for decisions.
    idempotency_key: Option<ByteString>,
}

impl WalkCall {
    pub(super) fn begin(
        context: &LaneContext,
        mut visit: Visit,
        decides: bool,
        request: Request<Incoming>,
    ) -> WalkCall {
        let headers = request.headers();
        let walk = context.begin_walk(Protocol::Grpc, &mut visit, headers, Duration::ZERO);
        let head = timeout(headers).and_then(|timeout| {
            let coding = encoding::of(headers)?;
            let idempotency_key = if decides { idempotency_key(headers)? } else { None };
            Ok(Head { deadline: walk.after(timeout), coding, idempotency_key })
        });
        WalkCall { walk, visit, decides, head, body: request.into_body() }
    }

    pub(super) async fn finish(mut self, context: &LaneContext) -> Reply {
        let head = self.head.as_mut().map(std::mem::take).unwrap_or_default();
        let (config, part) = (&context.shared.config, context.shared.bodies.part());
        let (_in_flight, admitted) = self.visit.split();
        let decision = GrpcDecision::new(head.idempotency_key);
        let body = async {
            let body = part.read(admitted, self.body, true).await?;
            self.head?;
            let framed = frame::unary(&body)?;
            let message = encoding::opened(framed, head.coding, config.body_bytes_max, &part).await?;
            if self.decides {
                decision.named(&message)?;
            }
            Ok(message)
        };
        let arrival = Arrival { walk: self.walk, body, deadline: head.deadline };
        let reply = if self.decides {
            serve(&context.lane, &DecisionRequest(&decision), arrival).await
        } else {
            let dialect = GrpcDialect { regions: context.shared.regions.clone() };
            serve(&context.lane, &Inference(&dialect), arrival).await
        };
        match reply {
            GrpcReply::Frame(frame) => framed(Some(frame)),
            status => refused(&status),
        }
    }
}

/// `grpc-timeout`: at most eight digits and a unit.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Fault> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let parse = || {
        let text = value.to_str().ok()?;
        let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let count: u64 = digits.parse().ok()?;
        Some(match unit {
            "H" => Duration::from_secs(count * 3600),
            "M" => Duration::from_secs(count * 60),
            "S" => Duration::from_secs(count),
            "m" => Duration::from_millis(count),
            "u" => Duration::from_micros(count),
            "n" => Duration::from_nanos(count),
            _ => return None,
        })
    };
    parse()
        .map(Some)
        .ok_or_else(|| Fault::malformed("header grpc-timeout is not up to eight digits and a unit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit_and_nonsense_is_refused() {
        let read = |text: &'static str| {
            timeout(&HeaderMap::from_iter([(
                ::http::HeaderName::from_static("grpc-timeout"),
                ::http::HeaderValue::from_static(text),
            )]))
        };
        for (text, wanted) in [
            ("2H", Duration::from_secs(7200)),
            ("3M", Duration::from_secs(180)),
            ("4S", Duration::from_secs(4)),
            ("250m", Duration::from_millis(250)),
            ("99999999u", Duration::from_micros(99_999_999)),
            ("7n", Duration::from_nanos(7)),
        ] {
            assert_eq!(read(text), Ok(Some(wanted)), "{text}");
        }
        for text in ["", "5", "m", "123456789m", "-1S", "+5S", "5x", "1.5S"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
    }
}
