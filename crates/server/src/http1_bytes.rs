//! Checks HTTP/1 bytes before hyper, whose parser accepts more than RFC 9112.
//!
//! hyper accepts a bare LF as a line end, and a length besides a transfer coding. A proxy may parse such bytes into other
//! requests (request smuggling). Tracks where heads, bodies and chunks start and end; must not know what a request
//! means.

use memchr::memchr;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Good,
    /// Malformed from this byte on; hyper responds with 400 to a zero byte there.
    Malformed(usize),
    /// The first line is not HTTP/1: the peer would not understand a response.
    Foreign,
}

/// A line that starts with one of these is meant as HTTP, and gets a response even if the rest is malformed.
const METHODS: [&[u8]; 8] = [b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    Body(u64),
    ChunkSize,
    Chunk(u64),
    Trailers,
    Ended,
}

#[derive(Debug, Default)]
pub(crate) struct Http1Bytes {
    part: Part,
    /// The start of the current line, from earlier reads. At most as long as a head, which hyper limits.
    begun: Vec<u8>,
    /// Whether this head's first line was seen.
    in_head: bool,
    /// Whether any head's first line was seen.
    spoke: bool,
    length: Option<u64>,
    chunked: bool,
}

impl Http1Bytes {
    /// Checks the next bytes of the connection.
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Look {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.part {
                Part::Ended => return Look::Foreign,
                Part::Body(left) => at += self.skip(left, rest.len(), Part::Body, Part::Head),
                Part::Chunk(left) => at += self.skip(left, rest.len(), Part::Chunk, Part::ChunkSize),
                Part::Head | Part::ChunkSize | Part::Trailers => {
                    let Some(end) = memchr(b'\n', rest) else {
                        self.begun.extend_from_slice(rest);
                        return Look::Good;
                    };
                    if let Err(look) = self.whole_line(&rest[..end]) {
                        self.part = Part::Ended;
                        return if look == Look::Foreign { look } else { Look::Malformed(at + end) };
                    }
                    at += end + 1;
                }
            }
        }
        Look::Good
    }

    fn skip(&mut self, left: u64, here: usize, same: fn(u64) -> Part, next: Part) -> usize {
        let skipped = left.min(here as u64);
        self.part = if skipped == left { next } else { same(left - skipped) };
        usize::try_from(skipped).unwrap_or(here)
    }

    /// A line without its LF; its start may be from an earlier read.
    fn whole_line(&mut self, end: &[u8]) -> Result<(), Look> {
        if self.begun.is_empty() {
            return self.line(end);
        }
        let mut line = std::mem::take(&mut self.begun);
        line.extend_from_slice(end);
        let looked = self.line(&line);
        line.clear();
        self.begun = line;
        looked
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Look> {
        const MALFORMED: Look = Look::Malformed(0);
        let line = line.strip_suffix(b"\r").ok_or(MALFORMED)?;
        match self.part {
            Part::Head if line.is_empty() => self.head_ends(),
            Part::Head if !self.in_head => {
                let mut words = line.split(|&byte| byte == b' ');
                let (method, version) = (words.next().unwrap_or_default(), words.next_back());
                let http = version.is_some_and(|version| version.starts_with(b"HTTP/"));
                if !self.spoke && !http && !METHODS.contains(&method) {
                    return Err(Look::Foreign);
                }
                (self.in_head, self.spoke) = (true, true);
            }
            Part::Head => self.field(line).ok_or(MALFORMED)?,
            Part::ChunkSize => {
                let size = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
                let size = number(size, 16).ok_or(MALFORMED)?;
                // The data and the CRLF after it.
                self.part = if size == 0 { Part::Trailers } else { Part::Chunk(size.saturating_add(2)) };
            }
            Part::Trailers if line.is_empty() => self.part = Part::Head,
            _ => {}
        }
        Ok(())
    }

    /// An empty line before a request is allowed and does not end a head.
    fn head_ends(&mut self) {
        if std::mem::take(&mut self.in_head) {
            self.part = match (std::mem::take(&mut self.chunked), self.length.take()) {
                (true, _) => Part::ChunkSize,
                (false, Some(length @ 1..)) => Part::Body(length),
                (false, _) => Part::Head,
            };
        }
    }

    /// `None` if the body's length is ambiguous.
    fn field(&mut self, line: &[u8]) -> Option<()> {
        let colon = memchr(b':', line)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value, 10)?;
            if self.chunked || self.length.replace(length).is_some_and(|before| before != length) {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = true;
            if self.length.is_some() {
                return None;
            }
        }
        Some(())
    }
}

/// Digits only: Rust's own parser accepts a sign.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let plain = !digits.is_empty() && digits.iter().all(|&digit| char::from(digit).is_digit(radix));
    plain.then(|| u64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In pieces of every size, which must not change what is seen.
    fn looked(bytes: &[u8]) -> Look {
        let whole = Http1Bytes::default().look(bytes);
        for size in 1..bytes.len() {
            let (mut looker, mut seen, mut before) = (Http1Bytes::default(), Look::Good, 0);
            for piece in bytes.chunks(size) {
                seen = match looker.look(piece) {
                    Look::Malformed(at) => Look::Malformed(before + at),
                    other => other,
                };
                if seen != Look::Good {
                    break;
                }
                before += piece.len();
            }
            assert_eq!(seen, whole, "in pieces of {size}");
        }
        whole
    }

    #[test]
    fn a_bare_line_feed_is_found_in_any_line_of_any_request_and_not_in_bodies() {
        let good = b"\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\na\n\nb\
            POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3;a=b\r\n\n\n\n\r\n0\r\nx: y\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        assert_eq!(looked(good), Look::Good);
        let mut lines = 0;
        for at in (0..good.len() - 1).filter(|&at| &good[at..at + 2] == b"\r\n") {
            let bare = [&good[..at], &good[at + 1..]].concat();
            // The one that ends a chunk's data is hyper's to check.
            if looked(&bare) == Look::Malformed(at) {
                lines += 1;
            }
        }
        assert_eq!(lines, 14);
    }

    #[test]
    fn a_body_whose_length_is_not_certain_is_malformed() {
        for fields in [
            "Content-Length: 4\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 4",
            "Content-Length: +4",
            "Content-Length: 4, 4",
            "Content-Length: 4\r\nContent-Length: 5",
            "Content-Length:",
            "no colon",
        ] {
            let head = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
            assert!(matches!(looked(head.as_bytes()), Look::Malformed(_)), "{fields}");
        }
        assert_eq!(looked(b"POST / HTTP/1.1\r\nContent-Length: 4\r\ncontent-length: 4\r\n\r\n"), Look::Good);
        assert!(matches!(
            looked(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"),
            Look::Malformed(_)
        ));
    }

    #[test]
    fn a_first_line_that_is_not_http_is_foreign_and_a_later_one_malformed_to_hyper() {
        assert_eq!(looked(b"INVALID CONNECTION PREFACE\r\n\r\n"), Look::Foreign);
        assert_eq!(looked(b"\x16\x03\x01\r\n"), Look::Foreign);
        assert_eq!(looked(b"GET\r\n\r\n"), Look::Good, "hyper answers 400");
        assert_eq!(looked(b"GET / HTTP/3.0\r\n\r\n"), Look::Good);
        assert_eq!(looked(b"GET / HTTP/1.1\r\n\r\nGET\r\n\r\n"), Look::Good);
    }

    #[test]
    fn nothing_that_follows_malformed_bytes_is_let_through() {
        let mut looker = Http1Bytes::default();
        assert_eq!(looker.look(b"GET / HTTP/1.1\n"), Look::Malformed(14));
        assert_eq!(looker.look(b"GET / HTTP/1.1\r\n\r\n"), Look::Foreign);
    }
}
