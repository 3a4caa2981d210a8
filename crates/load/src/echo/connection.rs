//! One connection of the echo: answers requests in order, pipelined or in pieces.

use super::Stalls;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: usize = 64 << 20;
const HEADERS_MAX: usize = 64;
const READ_BYTES: usize = 64 << 10;

/// Maximum unsent bytes; no further responses are made before they are gone.
const UNSENT_BYTES_MAX: usize = 1 << 20;

const ID_START: &[u8] = br#"{"id":""#;
const ID_END: &[u8] = br#""}"#;

/// The response to each request.
pub(super) struct Service {
    reply_bytes: usize,
    spin: Duration,
    /// The read buffer that all connections share.
    piece: Vec<u8>,
}

impl Service {
    pub(super) fn new(reply_bytes: usize, spin: Duration) -> Service {
        Service { reply_bytes, spin, piece: vec![0; READ_BYTES] }
    }

    fn answer(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        if !self.spin.is_zero() {
            let start = Instant::now();
            while start.elapsed() < self.spin {
                std::hint::spin_loop();
            }
        }
        let id = if request.post { request.id() } else { b"" };
        let length = (ID_START.len() + id.len() + ID_END.len()).max(self.reply_bytes);
        // Writing into memory cannot fail.
        let _ = write!(
            out,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        let start = out.len();
        out.extend_from_slice(ID_START);
        out.extend_from_slice(id);
        out.extend_from_slice(ID_END);
        out.resize(start + length, b' ');
    }
}

pub(super) struct Connection {
    stream: TcpStream,
    /// Received bytes of incomplete requests.
    received: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    closing: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, received: Vec::new(), out: Vec::new(), sent: 0, closing: false })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Responses wait for the peer to read them; nothing is read before.
    pub(super) fn is_writing(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Makes all possible progress. An error closes the connection.
    pub(super) fn advance(&mut self, service: &mut Service, stalls: &mut Option<Stalls>) -> io::Result<()> {
        if !self.is_writing() {
            let count = match self.stream.read(&mut service.piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            self.received.extend_from_slice(&service.piece[..count]);
        }
        loop {
            self.answer(service, stalls);
            self.write()?;
            // A pipeline longer than the limit continues once its first responses are gone.
            if self.is_writing() || !self.holds_request() {
                break;
            }
        }
        if self.closing && !self.is_writing() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    fn holds_request(&self) -> bool {
        !self.closing && !matches!(Request::find(&self.received), Ok(None))
    }

    /// Answers complete requests while there is room for responses.
    fn answer(&mut self, service: &Service, stalls: &mut Option<Stalls>) {
        let mut done = 0;
        while !self.closing && self.out.len() < UNSENT_BYTES_MAX {
            match Request::find(&self.received[done..]) {
                Ok(Some(request)) => {
                    if let Some(stalls) = stalls {
                        stalls.sleep_when_due();
                    }
                    service.answer(&request, &mut self.out);
                    self.closing = request.close;
                    done += request.length;
                }
                Ok(None) => break,
                Err(text) => {
                    let head = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: ";
                    let _ = write!(self.out, "{head}{}\r\n\r\n{text}", text.len());
                    self.closing = true;
                }
            }
        }
        if done == self.received.len() {
            self.received.clear();
        } else {
            self.received.drain(..done);
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while self.is_writing() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }
}

/// One complete request within the received bytes.
struct Request<'t> {
    post: bool,
    close: bool,
    body: &'t [u8],
    length: usize,
}

impl<'t> Request<'t> {
    /// `None` while bytes are missing; the error names what is wrong with them.
    fn find(received: &'t [u8]) -> Result<Option<Request<'t>>, &'static str> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let head = match request.parse(received) {
            Ok(httparse::Status::Complete(head)) => head,
            Ok(httparse::Status::Partial) if received.len() > HEAD_BYTES_MAX => {
                return Err("the head is too long");
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err("this is not HTTP/1.1"),
        };
        let (mut body, mut close) = (0, request.version == Some(0));
        for header in request.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                let digits =
                    std::str::from_utf8(header.value).ok().and_then(|value| value.trim().parse().ok());
                body = digits.ok_or("the content length is not a number")?;
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                return Err("chunked bodies are not supported here; send a content length");
            } else if header.name.eq_ignore_ascii_case("connection") {
                close |= header.value.eq_ignore_ascii_case(b"close");
            }
        }
        if body > BODY_BYTES_MAX {
            return Err("the body is too long");
        }
        let length = head + body;
        let post = request.method == Some("POST");
        Ok(received.get(head..length).map(|body| Request { post, close, body, length }))
    }

    /// The id, if it is the first key of the body; else empty.
    fn id(&self) -> &'t [u8] {
        let rest = self.body.strip_prefix(ID_START).unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == b'"').unwrap_or(0);
        &rest[..end]
    }
}
