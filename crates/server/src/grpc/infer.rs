//! `ModelInfer`: the head's part in a call, then the walk.

use super::{framed, status};
use crate::body;
use crate::lane_thread::LaneContext;
use crate::reply::Reply;
use ::http::{HeaderMap, HeaderValue, Request};
use flyball_core::{Fault, Nanos, Protocol};
use flyball_plane::{Arrival, Walk, decide};
use flyball_telemetry::LaneSink;
use flyball_wire::{GrpcDialect, GrpcReply, frame};
use hyper::body::Incoming;
use std::time::Duration;

/// An inference call whose head has been read, and which is counted from here on.
pub(crate) struct Infer {
    walk: Walk<LaneSink>,
    deadline: Result<Option<Nanos>, Fault>,
    body: Incoming,
}

impl Infer {
    pub(super) fn begin(context: &LaneContext, request: Request<Incoming>) -> Infer {
        let walk = Walk::begin(&context.lane, Protocol::Grpc, Duration::ZERO);
        let deadline = timeout(request.headers()).map(|timeout| walk.after(timeout));
        Infer { walk, deadline, body: request.into_body() }
    }

    pub(super) async fn finish(self, context: &LaneContext) -> Reply {
        let deadline = self.deadline.as_ref().ok().copied().flatten();
        let part = context.shared.bodies.part();
        let body = async {
            let body = body::read(self.body, true, &context.shared.config, &part).await?;
            self.deadline?;
            frame::decode(&body)
        };
        let dialect = GrpcDialect { regions: context.shared.regions.clone() };
        match decide(&context.lane, &dialect, Arrival { walk: self.walk, body, deadline }).await {
            GrpcReply::Frame(frame) => framed(Some(frame)),
            GrpcReply::Status { code, text, retry_after_ms } => {
                let mut reply = status(code, &text);
                if let Some(ms) = retry_after_ms {
                    reply.headers_mut().insert("grpc-retry-pushback-ms", HeaderValue::from(ms));
                }
                reply
            }
        }
    }
}

/// `grpc-timeout`: at most eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Fault> {
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
                HeaderValue::from_static(text),
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
