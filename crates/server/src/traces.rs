//! The trace that a request is part of, as its head says it (W3C Trace Context). What is not well formed is as good as none:
//! a record without it is better than a refusal.

use ::http::{HeaderMap, HeaderName};

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The id of the trace: 32 hexadecimal digits.
pub(crate) fn trace(headers: &HeaderMap) -> Option<[u8; 32]> {
    let line = headers.get(&TRACEPARENT)?.as_bytes();
    let (head, rest) = line.split_at_checked(55)?;
    let (version, rest_sound) = (&head[..2], rest.is_empty() || (rest[0] == b'-' && &head[..2] != b"00"));
    let parts = [(0, 2), (3, 35), (36, 52), (53, 55)];
    let digits = |&(from, to): &(usize, usize)| head[from..to].iter().all(|&byte| digit(byte));
    let dashes = [2, 35, 52].iter().all(|&place| head[place] == b'-');
    let sound = rest_sound && dashes && version != b"ff" && parts.iter().all(digits);
    let id: [u8; 32] = head[3..35].try_into().ok()?;
    let given = |digits: &[u8]| digits.iter().any(|digit| *digit != b'0');
    (sound && given(&id) && given(&head[36..52])).then_some(id)
}

fn digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
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
