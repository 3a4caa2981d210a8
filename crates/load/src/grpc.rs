//! `ModelInfer` over HTTP/2: `connections` × `streams` requests at a time, raw tensors both ways.

use crate::session::{Session, Ticket};
use crate::tally::{Ending, Problem};
use bytes::{BufMut, Bytes, BytesMut};
use flyball_wire::frame;
use flyball_wire::proto::inference::ModelInferResponse;
use http::{HeaderMap, Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use prost::Message;
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// The field `id` of `ModelInferRequest`, as it stands before its text on the wire.
const ID_TAG: u8 = 3 << 3 | 2;

/// One connection, shared by its streams; whoever finds it broken makes it anew.
#[derive(Default)]
pub(crate) struct Channel {
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

/// Sends requests on one stream until there are no more. `messages` holds each row's request without its id.
pub(crate) async fn work(session: &Session, channel: &Channel, messages: &[Vec<u8>]) {
    let uri = format!("http://{}/inference.GRPCInferenceService/ModelInfer", session.target.authority);
    while let Some(ticket) = session.next().await {
        let left = Instant::now();
        let message = &messages[session.payloads.place(ticket.sequence)];
        let exchange = exchange(session, channel, &uri, request_body(message, ticket.sequence));
        let answer = tokio::time::timeout(session.target.timeout, exchange).await;
        let ended = Instant::now();
        let unreachable = matches!(&answer, Ok(Err(problem)) if problem.reason.starts_with("connect"));
        let ending = match answer {
            Ok(Ok(answer)) => judge(session, ticket, &answer),
            Ok(Err(problem)) => Ending::Failed(problem),
            Err(_) => Ending::Failed(Problem::new("timeout", format!("after {:?}", session.target.timeout))),
        };
        session.finish(ticket, left, ended, ending);
        if unreachable {
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
    }
}

struct Answer {
    /// Where `grpc-status` stands: the trailers, or the head of an answer that has nothing else.
    status: HeaderMap,
    body: Bytes,
}

/// A frame with the prepared message and the id behind it: fields may come in any order.
fn request_body(message: &[u8], sequence: u64) -> Bytes {
    let id = sequence.to_string();
    let length = message.len() + 2 + id.len();
    let mut body = BytesMut::with_capacity(frame::HEAD_BYTES + length);
    body.put_u8(0);
    body.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    body.put_slice(message);
    body.put_u8(ID_TAG);
    // A sequence number has at most twenty digits.
    body.put_u8(id.len() as u8);
    body.put_slice(id.as_bytes());
    body.freeze()
}

async fn exchange(session: &Session, channel: &Channel, uri: &str, body: Bytes) -> Result<Answer, Problem> {
    let mut sender = channel.sender(session).await?;
    let request = Request::post(uri)
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(body))
        .map_err(|error| Problem::new("connection broken", error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let http_status = response.status();
    if http_status != 200 {
        return Err(Problem::new(format!("http {}", http_status.as_u16()), ""));
    }
    let (head, body) = response.into_parts();
    let collected = body.collect().await.map_err(|error| broken(&error))?;
    let status = collected.trailers().cloned().unwrap_or(head.headers);
    Ok(Answer { status, body: collected.to_bytes() })
}

impl Channel {
    async fn sender(&self, session: &Session) -> Result<SendRequest<Full<Bytes>>, Problem> {
        let mut kept = self.sender.lock().await;
        if let Some(sender) = kept.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let failed = |error: &dyn std::error::Error| Problem::new("connect failed", error.to_string());
        let stream = TcpStream::connect(session.target.address).await.map_err(|error| {
            if error.kind() == std::io::ErrorKind::ConnectionRefused {
                Problem::new("connect refused", "")
            } else {
                failed(&error)
            }
        })?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let (sender, connection) =
            handshake(LocalExecutor, TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        // Ends with its connection, at the latest when the local set that owns it is dropped; what breaks it is told
        // to the requests that it breaks.
        tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
        *kept = Some(sender.clone());
        Ok(sender)
    }
}

/// Runs hyper's own tasks on the generator's thread.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

fn judge(session: &Session, ticket: Ticket, answer: &Answer) -> Ending {
    let header = |name| answer.status.get(name).and_then(|value| value.to_str().ok());
    let code = header("grpc-status").and_then(|code| code.parse::<u16>().ok());
    let text = || header("grpc-message").unwrap_or_default().to_owned();
    match code {
        Some(0) => {}
        None => return Ending::Failed(Problem::new("no grpc-status", "")),
        Some(code) => {
            let problem = Problem::new(format!("grpc {}", code_name(code)), text());
            // The caller's fault, overload and not ready; the rest is the server's own.
            let refused = matches!(code, 3 | 4 | 5 | 8 | 12 | 14);
            return if refused { Ending::Refused(problem) } else { Ending::Failed(problem) };
        }
    }
    let message = frame::decode(&answer.body)
        .map_err(|fault| fault.to_string())
        .and_then(|message| ModelInferResponse::decode(message).map_err(|error| error.to_string()));
    let expected = &session.payloads.row(ticket.sequence).expected;
    match message.and_then(|message| expected.check_message(&ticket.sequence.to_string(), &message)) {
        Ok(()) => Ending::Answered,
        Err(text) => Ending::Mismatched(text),
    }
}

fn code_name(code: u16) -> String {
    let name = match code {
        1 => "CANCELLED",
        2 => "UNKNOWN",
        3 => "INVALID_ARGUMENT",
        4 => "DEADLINE_EXCEEDED",
        5 => "NOT_FOUND",
        8 => "RESOURCE_EXHAUSTED",
        9 => "FAILED_PRECONDITION",
        12 => "UNIMPLEMENTED",
        13 => "INTERNAL",
        14 => "UNAVAILABLE",
        _ => return code.to_string(),
    };
    name.to_owned()
}

fn broken(error: &hyper::Error) -> Problem {
    let reason = if error.is_closed() || error.is_incomplete_message() || error.is_canceled() {
        "closed early"
    } else {
        "connection broken"
    };
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Problem::new(reason, format!("{error}{cause}"))
}
