//! HTTP/1.1 by hand: one request at a time on a kept connection.
//!
//! Requests are written from prepared parts, responses are parsed with httparse. A client library would cost
//! more than the measured server.

mod answer;

use crate::expect::HttpBody;
use crate::payloads::Body;
use crate::plan::{Protocol, Target};
use crate::session::{Session, Ticket};
use crate::stream::Stream;
use crate::tally::{Ending, Problem};
use crate::worker::Client;
use answer::{Answer, Finder};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Maximum size of a response.
const ANSWER_BYTES_MAX: usize = 256 << 20;
const READ_BYTES: usize = 16 << 10;

/// Bodies up to this size are copied after their head, so that one write sends all; longer ones are not
/// copied.
const COPIED_BYTES_MAX: usize = 32 << 10;

/// A connection of a session, for one request at a time.
pub(crate) struct Connection<'s> {
    session: &'s Session,
    head: RequestHead,
    /// Taken during an exchange, so that an abandoned one leaves no stream behind.
    stream: Option<Stream>,
    out: Vec<u8>,
    received: Vec<u8>,
}

impl<'s> Connection<'s> {
    pub(crate) fn new(session: &'s Session, protocol: Protocol, stream: Option<Stream>) -> Connection<'s> {
        Connection {
            session,
            head: RequestHead::new(&session.target, protocol),
            stream,
            out: Vec::new(),
            received: Vec::with_capacity(READ_BYTES),
        }
    }

    async fn write_request(&mut self, stream: &mut Stream, ticket: Ticket) -> io::Result<()> {
        let body = &self.session.row(ticket.sequence).body;
        self.head.write(&mut self.out, ticket.sequence, body);
        if body.text.len() + body.raw.len() <= COPIED_BYTES_MAX {
            self.out.extend_from_slice(&body.text);
            self.out.extend_from_slice(&body.raw);
            return stream.write_all(&self.out).await;
        }
        stream.write_all(&self.out).await?;
        stream.write_all(&body.text).await?;
        stream.write_all(&body.raw).await
    }

    async fn read_answer(&mut self, stream: &mut Stream) -> Result<Answer, Problem> {
        let mut finder = Finder::default();
        loop {
            self.received.reserve(READ_BYTES);
            let count = stream.read_buf(&mut self.received).await.map_err(|error| broken(&error))?;
            if let Some(answer) = finder.find(&mut self.received, count == 0)? {
                return Ok(answer);
            }
            if count == 0 {
                return Err(Problem::broken("closed early", "before the answer was complete"));
            }
            if self.received.len() > ANSWER_BYTES_MAX {
                return Err(Problem::new("answer too large", format!("more than {ANSWER_BYTES_MAX} bytes")));
            }
        }
    }
}

impl Client for Connection<'_> {
    type Answer = Answer;

    async fn exchange(&mut self, ticket: Ticket) -> Result<Answer, Problem> {
        self.received.clear();
        let mut stream = match self.stream.take().filter(|stream| !stream.closed_by_peer()) {
            Some(stream) => stream,
            None => self.session.target.address.connect().await?,
        };
        self.write_request(&mut stream, ticket).await.map_err(|error| broken(&error))?;
        let answer = self.read_answer(&mut stream).await?;
        self.stream = (!answer.close).then_some(stream);
        Ok(answer)
    }

    fn check(&self, ticket: Ticket, answer: &Answer) -> Ending {
        let body = self.received.get(answer.body.clone()).unwrap_or_default();
        if answer.status == 200 {
            let json_length = answer.json_length.unwrap_or(body.len());
            let checked = self.session.row(ticket.sequence).expected.check_http(
                itoa::Buffer::new().format(ticket.sequence),
                HttpBody { bytes: body, json_length },
                self.session.target.foreign,
                self.session.verified(ticket.sequence),
            );
            return checked.map_or_else(Ending::Mismatched, |()| Ending::Answered);
        }
        let start = String::from_utf8_lossy(&body[..body.len().min(300)]);
        let problem = Problem::new(format!("http {}", answer.status), start);
        match answer.status {
            422 => Ending::Failed(problem),
            400..=499 | 503 | 504 => Ending::Refused(problem),
            _ => Ending::Failed(problem),
        }
    }
}

/// The constant parts of a request, and where its numbers go.
struct RequestHead {
    /// Up to the value of the first length.
    start: Vec<u8>,
    protocol: Protocol,
}

const ID_START: &[u8] = br#"{"id":""#;
const ID_END: &[u8] = br#"","#;

impl RequestHead {
    fn new(target: &Target, protocol: Protocol) -> RequestHead {
        let Target { path, authority, .. } = target;
        let mut start = format!("POST {path} HTTP/1.1\r\nHost: {authority}\r\n");
        if let Some(deadline) = target.deadline {
            // V2 has the parameter `timeout` in the body; flyball reads the header.
            start += &format!("X-Request-Timeout-Ms: {}\r\n", deadline.as_millis());
        }
        start += if protocol == Protocol::HttpBinary {
            "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: "
        } else {
            "Content-Type: application/json\r\nContent-Length: "
        };
        RequestHead { start: start.into_bytes(), protocol }
    }

    /// Head and `{"id":"<sequence>",`: everything before the prepared body. Serialises nothing. A raw JSON
    /// body gets no id.
    fn write(&self, out: &mut Vec<u8>, sequence: u64, body: &Body) {
        let (mut digits, mut number) = (itoa::Buffer::new(), itoa::Buffer::new());
        let id = digits.format(sequence).as_bytes();
        let parts =
            if self.protocol == Protocol::Json { [b"".as_slice(); 3] } else { [ID_START, id, ID_END] };
        let json_length = parts.iter().map(|part| part.len()).sum::<usize>() + body.text.len();
        out.clear();
        out.extend_from_slice(&self.start);
        out.extend_from_slice(number.format(json_length).as_bytes());
        if self.protocol == Protocol::HttpBinary {
            out.extend_from_slice(b"\r\nContent-Length: ");
            out.extend_from_slice(number.format(json_length + body.raw.len()).as_bytes());
        }
        out.extend_from_slice(b"\r\n\r\n");
        for part in parts {
            out.extend_from_slice(part);
        }
    }
}

fn broken(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            Problem::broken("closed early", error.to_string())
        }
        _ => Problem::broken("connection broken", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn heads_say_how_long_the_json_and_the_whole_body_are() {
        let target = Target {
            address: crate::stream::Address::Unix("/none".into()),
            authority: "h:1".into(),
            path: "/p".into(),
            foreign: false,
            timeout: Duration::ZERO,
            deadline: Some(Duration::from_millis(7)),
            connection_wait: None,
        };
        let body = Body { text: br#""inputs":[]}"#.to_vec(), raw: vec![0; 5] };
        let head = |protocol| {
            let mut out = Vec::new();
            RequestHead::new(&target, protocol).write(&mut out, 42, &body);
            String::from_utf8(out).expect("text")
        };
        let start = "POST /p HTTP/1.1\r\nHost: h:1\r\nX-Request-Timeout-Ms: 7\r\nContent-Type: application/";
        assert_eq!(head(Protocol::Json), format!("{start}json\r\nContent-Length: 12\r\n\r\n"));
        assert_eq!(
            head(Protocol::Http),
            format!("{start}json\r\nContent-Length: 23\r\n\r\n{{\"id\":\"42\",")
        );
        assert_eq!(
            head(Protocol::HttpBinary),
            format!(
                "{start}octet-stream\r\nInference-Header-Content-Length: 23\r\nContent-Length: 28\r\n\r\n{{\"id\":\"42\","
            )
        );
    }
}
