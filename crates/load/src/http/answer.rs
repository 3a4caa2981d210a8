//! Finds one HTTP/1.1 answer in the bytes that have arrived so far.

use crate::tally::Problem;
use std::ops::Range;

const HEADERS_MAX: usize = 64;

/// A whole answer; its body lies at `body` in the buffer that it was found in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(super) status: u16,
    pub(super) close: bool,
    pub(super) body: Range<usize>,
    /// Where raw tensors follow: the bytes of the JSON before them.
    pub(super) json_length: Option<usize>,
}

enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

struct Head {
    status: u16,
    close: bool,
    framing: Framing,
    json_length: Option<usize>,
    length: usize,
}

impl Answer {
    /// `None` while bytes are missing. `ended`: no more will come. Chunks are joined in place once all have come.
    pub(super) fn find(received: &mut Vec<u8>, ended: bool) -> Result<Option<Answer>, Problem> {
        let Some(head) = Head::parse(received)? else { return Ok(None) };
        let answer = |close: bool, body| {
            let (status, json_length) = (head.status, head.json_length);
            Some(Answer { status, close: head.close || close, body, json_length })
        };
        match head.framing {
            Framing::Length(length) => {
                let end = head.length.saturating_add(length);
                // Bytes beyond the answer belong to no request: such a connection is not used again.
                Ok((received.len() >= end).then(|| answer(received.len() > end, head.length..end)).flatten())
            }
            Framing::Chunked => {
                let Some(body) = join_chunks(&received[head.length..])? else { return Ok(None) };
                received.truncate(head.length);
                received.extend_from_slice(&body);
                Ok(answer(false, head.length..received.len()))
            }
            Framing::UntilClose => Ok(ended.then(|| answer(true, head.length..received.len())).flatten()),
        }
    }
}

impl Head {
    fn parse(received: &[u8]) -> Result<Option<Head>, Problem> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(received) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(not_http(error)),
        };
        let mut head = Head {
            status: response.code.unwrap_or_default(),
            close: response.version == Some(0),
            framing: Framing::UntilClose,
            json_length: None,
            length,
        };
        for header in response.headers.iter() {
            let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
            if header.name.eq_ignore_ascii_case("content-length") {
                head.framing = Framing::Length(value.parse().map_err(not_http)?);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                head.framing = Framing::Chunked;
            } else if header.name.eq_ignore_ascii_case("inference-header-content-length") {
                head.json_length = Some(value.parse().map_err(not_http)?);
            } else if header.name.eq_ignore_ascii_case("connection") {
                head.close = value.eq_ignore_ascii_case("close")
                    || head.close && !value.eq_ignore_ascii_case("keep-alive");
            }
        }
        if matches!(head.status, 204 | 304) {
            head.framing = Framing::Length(0);
        }
        Ok(Some(head))
    }
}

/// The bodies of all chunks; `None` while the last one has not come. Trailers are not expected.
fn join_chunks(mut rest: &[u8]) -> Result<Option<Vec<u8>>, Problem> {
    let mut body = Vec::new();
    loop {
        let (start, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(not_http(error)),
        };
        let size = usize::try_from(size).map_err(not_http)?;
        let Some(end) = start.checked_add(size).and_then(|end| end.checked_add(2)) else {
            return Err(not_http("a chunk is too long"));
        };
        let Some(chunk) = rest.get(start..end) else { return Ok(None) };
        if !chunk.ends_with(b"\r\n") {
            return Err(not_http("a chunk does not end where it says"));
        }
        if size == 0 {
            return Ok(Some(body));
        }
        body.extend_from_slice(&chunk[..size]);
        rest = &rest[end..];
    }
}

fn not_http(cause: impl ToString) -> Problem {
    Problem::new("not an HTTP answer", cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, ended: bool) -> Result<Option<(u16, bool, String)>, Problem> {
        let mut received = text.as_bytes().to_vec();
        let answer = Answer::find(&mut received, ended)?;
        Ok(answer.map(|answer| {
            let body = String::from_utf8(received[answer.body].to_vec()).expect("text");
            (answer.status, answer.close, body)
        }))
    }

    #[test]
    fn answers_of_each_framing_are_found_once_they_are_whole() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", false, (200, false, "hi")),
            ("HTTP/1.1 503 No\r\nconnection: Close\r\ncontent-length: 0\r\n\r\n", false, (503, true, "")),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n",
                false,
                (200, false, "hi"),
            ),
            ("HTTP/1.0 200 OK\r\n\r\nhi", true, (200, true, "hi")),
            ("HTTP/1.1 204 None\r\n\r\n", false, (204, false, "")),
        ];
        for (text, ended, (status, close, body)) in cases {
            assert_eq!(find(text, ended).expect("HTTP"), Some((status, close, body.to_owned())), "{text}");
            let head = text.find("\r\n\r\n").expect("a head") + 3;
            for end in 0..head {
                assert_eq!(find(&text[..end], false).expect("no fault yet"), None, "{end} of {text}");
            }
        }
    }

    #[test]
    fn the_length_of_the_json_before_raw_tensors_is_read() {
        let mut received =
            b"HTTP/1.1 200 OK\r\nInference-Header-Content-Length: 2\r\ncontent-length: 3\r\n\r\n{}x".to_vec();
        let answer = Answer::find(&mut received, false).expect("HTTP").expect("whole");
        assert_eq!((answer.json_length, &received[answer.body]), (Some(2), &b"{}x"[..]));
    }

    #[test]
    fn what_is_no_http_is_said_to_be_none() {
        for text in ["nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"] {
            assert!(find(text, false).is_err_and(|problem| problem.reason == "not an HTTP answer"));
        }
    }
}
