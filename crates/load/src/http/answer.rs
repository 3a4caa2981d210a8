//! Finds one HTTP/1.1 response in the bytes received so far.

use crate::tally::Problem;
use std::ops::Range;

const HEADERS_MAX: usize = 64;

/// A complete response; its body is at `body` in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(super) status: u16,
    pub(super) close: bool,
    pub(super) body: Range<usize>,
    /// The bytes of the JSON before raw tensors, if there are any.
    pub(super) json_length: Option<usize>,
}

#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

#[derive(Clone, Copy)]
struct Head {
    status: u16,
    close: bool,
    framing: Framing,
    json_length: Option<usize>,
    length: usize,
}

/// Finds one response incrementally. Parsed bytes are not parsed again: a long response comes in many pieces.
#[derive(Default)]
pub(super) struct Finder {
    head: Option<Head>,
    /// The end of the head.
    body: usize,
    chunks: Chunks,
}

impl Finder {
    /// `None` while bytes are missing. `ended`: no more will come. `received` only grows between calls.
    pub(super) fn find(&mut self, received: &mut [u8], ended: bool) -> Result<Option<Answer>, Problem> {
        let Some(head) = self.head(received)? else { return Ok(None) };
        let body = match head.framing {
            Framing::Length(length) => {
                let end = self.body.saturating_add(length);
                (received.len() >= end).then_some((received.len() > end, self.body..end))
            }
            Framing::Chunked => {
                let end = self.chunks.join(received)?;
                end.map(|end| (received.len() > self.chunks.read, self.body..end))
            }
            Framing::UntilClose => ended.then_some((true, self.body..received.len())),
        };
        Ok(body.map(|(more, body)| Answer {
            status: head.status,
            // Bytes after the response belong to no request: such a connection is not reused.
            close: head.close || more,
            body,
            json_length: head.json_length,
        }))
    }

    /// The head of the final response; skips interim ones.
    fn head(&mut self, received: &[u8]) -> Result<Option<Head>, Problem> {
        while self.head.is_none() {
            let Some(head) = Head::parse(&received[self.body..])? else { return Ok(None) };
            self.body += head.length;
            match head.status {
                101 => return Err(not_http("it switches to another protocol without a request to")),
                100..=199 => {}
                _ => {
                    self.head = Some(head);
                    self.chunks = Chunks { read: self.body, joined: self.body };
                }
            }
        }
        Ok(self.head)
    }
}

/// The parsed chunks of a body, and the end of their joined content.
#[derive(Default)]
struct Chunks {
    read: usize,
    joined: usize,
}

impl Chunks {
    /// Joins the bodies of all received chunks in place; returns their end after the last one. Trailers are
    /// not expected.
    fn join(&mut self, received: &mut [u8]) -> Result<Option<usize>, Problem> {
        loop {
            let rest = &received[self.read..];
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
            let carried = self.read + start..self.read + start + size;
            received.copy_within(carried, self.joined);
            self.read += end;
            self.joined += size;
            if size == 0 {
                return Ok(Some(self.joined));
            }
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

fn not_http(cause: impl ToString) -> Problem {
    Problem::new("not an HTTP answer", cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = Option<(u16, bool, String)>;

    fn find(text: &str, ended: bool) -> Result<Found, Problem> {
        find_in_pieces(text, text.len().max(1), ended)
    }

    /// The final result; nothing may be found before.
    fn find_in_pieces(text: &str, piece: usize, ended: bool) -> Result<Found, Problem> {
        let (mut finder, mut received) = (Finder::default(), Vec::new());
        for part in text.as_bytes().chunks(piece) {
            received.extend_from_slice(part);
            let last = received.len() == text.len();
            let answer = finder.find(&mut received, ended && last)?;
            if let Some(answer) = answer {
                assert_eq!(received.len(), text.len(), "found before it was whole: {text}");
                let body = String::from_utf8(received[answer.body].to_vec()).expect("text");
                return Ok(Some((answer.status, answer.close, body)));
            }
        }
        Ok(None)
    }

    #[test]
    fn answers_of_each_framing_are_found_once_they_are_whole_however_they_come() {
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let long = "3\r\nabc\r\n10\r\n0123456789abcdef\r\n1\r\nz\r\n0\r\n\r\n";
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", false, (200, false, "hi")),
            ("HTTP/1.1 503 No\r\nconnection: Close\r\ncontent-length: 0\r\n\r\n", false, (503, true, "")),
            (&format!("{chunked}1\r\nh\r\n1\r\ni\r\n0\r\n\r\n"), false, (200, false, "hi")),
            (&format!("{chunked}{long}"), false, (200, false, "abc0123456789abcdefz")),
            ("HTTP/1.0 200 OK\r\n\r\nhi", true, (200, true, "hi")),
            ("HTTP/1.1 204 None\r\n\r\n", false, (204, false, "")),
        ];
        for (text, ended, (status, close, body)) in cases {
            for piece in [1, 2, 7, text.len()] {
                let found = find_in_pieces(text, piece, ended).expect("HTTP");
                assert_eq!(found, Some((status, close, body.to_owned())), "{piece} of {text}");
            }
            let head = text.find("\r\n\r\n").expect("a head") + 3;
            assert_eq!(find(&text[..head], false).expect("no fault yet"), None, "{text}");
        }
    }

    #[test]
    fn interim_answers_are_passed_over_and_no_answer_of_their_own() {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        for last in ["content-length: 2\r\n\r\nhi", "transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"]
        {
            let text = format!("{interim}HTTP/1.1 200 OK\r\n{last}");
            for piece in [1, text.len()] {
                let found = find_in_pieces(&text, piece, false).expect("HTTP");
                assert_eq!(found, Some((200, false, "hi".into())), "{text}");
            }
        }
        assert_eq!(find(interim, true).expect("HTTP"), None, "closed before the answer came");
        let switched = find("HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n", false);
        assert!(switched.is_err_and(|problem| problem.text.contains("another protocol")));
    }

    #[test]
    fn a_connection_with_bytes_behind_its_answer_is_not_used_again() {
        for framing in ["content-length: 1\r\n\r\nx", "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"]
        {
            let found = find(&format!("HTTP/1.1 200 OK\r\n{framing}more"), false).expect("HTTP");
            assert_eq!(found, Some((200, true, "x".into())));
        }
    }

    #[test]
    fn chunks_that_lie_about_their_length_are_no_http() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        for chunks in ["2\r\nabcd", "x\r\n", "ffffffffffffffff\r\n"] {
            let found = find(&format!("{head}{chunks}"), false);
            assert!(found.is_err_and(|problem| problem.reason == "not an HTTP answer"), "{chunks}");
        }
    }

    #[test]
    fn the_length_of_the_json_before_raw_tensors_is_read() {
        let mut received =
            b"HTTP/1.1 200 OK\r\nInference-Header-Content-Length: 2\r\ncontent-length: 3\r\n\r\n{}x".to_vec();
        let answer = Finder::default().find(&mut received, false).expect("HTTP").expect("whole");
        assert_eq!((answer.json_length, &received[answer.body]), (Some(2), &b"{}x"[..]));
    }

    #[test]
    fn what_is_no_http_is_said_to_be_none() {
        for text in ["nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"] {
            assert!(find(text, false).is_err_and(|problem| problem.reason == "not an HTTP answer"));
        }
    }
}
