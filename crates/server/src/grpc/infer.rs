//! `ModelInfer`: the head's part in a call, then the walk.

use super::{encoding, framed, refused};
use crate::body;
use crate::callers::Visit;
use crate::lane_thread::LaneContext;
use crate::reply::Reply;
use ::http::{HeaderMap, Request};
use flyball_core::{Fault, Nanos, Protocol};
use flyball_plane::{Arrival, Inference, Walk, serve};
use flyball_telemetry::LaneSink;
use flyball_wire::coding::Coding;
use flyball_wire::{GrpcDialect, GrpcReply, frame};
use hyper::body::Incoming;
use std::time::Duration;

/// An inference call whose head has been read, and which is counted from here on.
pub(crate) struct Infer {
    walk: Walk<LaneSink>,
    visit: Visit,
    head: Result<(Option<Nanos>, Coding), Fault>,
    body: Incoming,
}

impl Infer {
    pub(super) fn begin(context: &LaneContext, mut visit: Visit, request: Request<Incoming>) -> Infer {
        let walk = context.begin_walk(Protocol::Grpc, &mut visit, request.headers(), Duration::ZERO);
        let headers = request.headers();
        let deadline = timeout(headers).map(|timeout| walk.after(timeout));
        let head = deadline.and_then(|deadline| Ok((deadline, encoding::of(headers)?)));
        Infer { walk, visit, head, body: request.into_body() }
    }

    pub(super) async fn finish(self, context: &LaneContext) -> Reply {
        let deadline = self.head.as_ref().map_or(None, |&(deadline, _)| deadline);
        let (config, part) = (&context.shared.config, context.shared.bodies.part());
        let (_in_flight, standing) = self.visit.split();
        let body = async {
            let body = body::read_from(standing, self.body, true, config, &part).await?;
            let (_, coding) = self.head?;
            encoding::opened(frame::unary(&body)?, coding, config.body_bytes_max, &part).await
        };
        let dialect = GrpcDialect { regions: context.shared.regions.clone() };
        match serve(&context.lane, &Inference(&dialect), Arrival { walk: self.walk, body, deadline }).await {
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
