//! `/v1/decisions`: descriptions of decisions, idempotency keys, and problems (RFC 9457).

use super::JSON;
use crate::decisions;
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, whole};
use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use bytestring::ByteString;
use flyball_core::{Access, Fault};
use flyball_wire::metadata::json;
use flyball_wire::{DecisionFacts, PROBLEM_JSON, Problem};

pub(crate) static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Whether a path belongs to `/v1`, known or not.
pub(super) fn is_ours(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The idempotency key; over gRPC it is metadata of the same name.
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
        Ok(facts) => whole(StatusCode::OK, JSON, json(&facts)),
        Err(fault) => refuse(&fault, Some(name)),
    }
}

/// A refusal outside a walk.
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
