//! The trace id of a request (W3C Trace Context).
//!
//! A malformed header counts as none: a record without a trace is better than a refusal.

use ::http::{HeaderMap, HeaderName};

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The id of the trace: 32 hexadecimal digits.
pub(crate) fn trace(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut parts = headers.get(&TRACEPARENT)?.as_bytes().split(|&byte| byte == b'-');
    let [version, id, parent, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let valid = |part: &[u8], length: usize| part.len() == length && part.iter().all(digit);
    let given = |part: &[u8]| part.iter().any(|digit| *digit != b'0');
    let well_formed = valid(version, 2) && valid(parent, 16) && valid(flags, 2) && valid(id, 32);
    // Later versions may have further parts.
    let version_ok = version != b"ff" && (version != b"00" || parts.next().is_none());
    (well_formed && version_ok && given(id) && given(parent)).then(|| id.try_into().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::HeaderValue;

    #[test]
    fn a_trace_is_taken_from_a_well_formed_line_alone() {
        let of = |line: &str| {
            let line = HeaderValue::from_str(line).expect("a header's value");
            trace(&HeaderMap::from_iter([(TRACEPARENT.clone(), line)]))
        };
        let id = *b"0af7651916cd43dd8448eb211c80319c";
        assert_eq!(of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), Some(id));
        assert_eq!(of("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"), Some(id));
        assert_eq!(trace(&HeaderMap::new()), None);
        for line in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
