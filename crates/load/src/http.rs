//! HTTP/1.1 by hand: one request at a time on a kept connection, written from prepared parts and read with httparse.
//! A client library would cost more than the server that is being measured.

mod answer;

use crate::session::{Session, Ticket};
use crate::tally::{Ending, Problem};
use answer::Answer;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What an answer may take at most.
const ANSWER_BYTES_MAX: usize = 256 << 20;
const READ_BYTES: usize = 16 << 10;

/// A pause after a connection that could not be made, so that a dead server is not called a million times a second.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Sends requests on one connection until there are no more.
pub(crate) async fn work(session: &Session) {
    let mut connection = Connection::new(session);
    while let Some(ticket) = session.next().await {
        let left = Instant::now();
        let exchange = tokio::time::timeout(session.target.timeout, connection.exchange(ticket)).await;
        let ended = Instant::now();
        let reusable = matches!(&exchange, Ok(Ok(answer)) if !answer.close);
        let ending = match exchange {
            Ok(Ok(answer)) => connection.judge(ticket, &answer),
            Ok(Err(problem)) => Ending::Failed(problem),
            Err(_) => Ending::Failed(Problem::new("timeout", format!("after {:?}", session.target.timeout))),
        };
        let unreachable = connection.unreachable;
        if !reusable {
            connection.stream = None;
        }
        session.finish(ticket, left, ended, ending);
        if unreachable {
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
    }
}

struct Connection<'s> {
    session: &'s Session,
    /// Everything before the value of `Content-Length`.
    head: Vec<u8>,
    stream: Option<TcpStream>,
    unreachable: bool,
    out: Vec<u8>,
    received: Vec<u8>,
}

impl<'s> Connection<'s> {
    fn new(session: &'s Session) -> Connection<'s> {
        let target = &session.target;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: ",
            target.path, target.authority
        );
        Connection {
            session,
            head: head.into_bytes(),
            stream: None,
            unreachable: false,
            out: Vec::new(),
            received: Vec::with_capacity(READ_BYTES),
        }
    }

    async fn exchange(&mut self, ticket: Ticket) -> Result<Answer, Problem> {
        self.write_request(ticket);
        self.received.clear();
        let mut stream = match self.stream.take().filter(|stream| !closed_by_peer(stream)) {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        stream.write_all(&self.out).await.map_err(|error| broken(&error))?;
        let answer = self.read_answer(&mut stream).await?;
        self.stream = Some(stream);
        Ok(answer)
    }

    async fn connect(&mut self) -> Result<TcpStream, Problem> {
        self.unreachable = true;
        let connect = TcpStream::connect(self.session.target.address).await;
        let stream = connect.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Problem::new("connect refused", ""),
            _ => Problem::new("connect failed", error.to_string()),
        })?;
        stream.set_nodelay(true).map_err(|error| Problem::new("connect failed", error.to_string()))?;
        self.unreachable = false;
        Ok(stream)
    }

    /// `{"id":"<sequence>","inputs":…}` behind its head; nothing is serialised anew.
    fn write_request(&mut self, ticket: Ticket) {
        let inputs = self.session.payloads.row(ticket.sequence).inputs_text.as_bytes();
        let digits = ticket.sequence.checked_ilog10().unwrap_or(0) as usize + 1;
        let length = r#"{"id":"","#.len() + digits + inputs.len() + "}".len();
        self.out.clear();
        self.out.extend_from_slice(&self.head);
        // Writing into memory does not fail.
        let _ = write!(self.out, "{length}\r\n\r\n{{\"id\":\"{}\",", ticket.sequence);
        self.out.extend_from_slice(inputs);
        self.out.push(b'}');
    }

    async fn read_answer(&mut self, stream: &mut TcpStream) -> Result<Answer, Problem> {
        loop {
            self.received.reserve(READ_BYTES);
            let count = stream.read_buf(&mut self.received).await.map_err(|error| broken(&error))?;
            if let Some(answer) = Answer::find(&mut self.received, count == 0)? {
                return Ok(answer);
            }
            if count == 0 {
                return Err(Problem::new("closed early", "before the answer was complete"));
            }
            if self.received.len() > ANSWER_BYTES_MAX {
                return Err(Problem::new("answer too large", format!("more than {ANSWER_BYTES_MAX} bytes")));
            }
        }
    }

    fn judge(&self, ticket: Ticket, answer: &Answer) -> Ending {
        let body = self.received.get(answer.body.clone()).unwrap_or_default();
        if answer.status == 200 {
            let mut id = [0_u8; 20];
            let row = self.session.payloads.row(ticket.sequence);
            return match row.expected.check_json(
                decimal(ticket.sequence, &mut id),
                body,
                self.session.target.foreign,
            ) {
                Ok(()) => Ending::Answered,
                Err(text) => Ending::Mismatched(text),
            };
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

/// A number's digits, without a heap allocation for each request.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &str {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 || start == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[start..]).unwrap_or_default()
}

/// Whether the server ended a kept connection while it was idle. No system call unless something arrived.
fn closed_by_peer(stream: &TcpStream) -> bool {
    !matches!(stream.try_read(&mut [0_u8; 1]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

fn broken(error: &io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            Problem::new("closed early", error.to_string())
        }
        _ => Problem::new("connection broken", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 9, 10, 1234567890, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string());
        }
    }
}
