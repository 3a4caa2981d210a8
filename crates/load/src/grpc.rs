//! `ModelInfer` over HTTP/2: `connections` × `streams` concurrent requests, raw tensors in both directions.

use crate::plan::Target;
use crate::session::{Session, Ticket};
use crate::tally::{Ending, Problem};
use crate::worker::Client;
use bytes::{BufMut, Bytes, BytesMut};
use flyball_wire::frame;
use flyball_wire::proto::inference::ModelInferResponse;
use http::{HeaderMap, Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use prost::Message;
use std::future::Future;
use tokio::sync::Mutex;

/// The key of `ModelInferRequest.id` on the wire.
const ID_TAG: u8 = 3 << 3 | 2;

/// One connection, shared by its streams; the first to find it broken reopens it.
#[derive(Default)]
pub(crate) struct Channel {
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

/// One stream of a channel.
pub(crate) struct Caller<'s> {
    session: &'s Session,
    channel: &'s Channel,
    uri: String,
}

impl<'s> Caller<'s> {
    pub(crate) fn new(session: &'s Session, channel: &'s Channel) -> Caller<'s> {
        let authority = &session.target.authority;
        let uri = format!("http://{authority}/inference.GRPCInferenceService/ModelInfer");
        Caller { session, channel, uri }
    }
}

impl Client for Caller<'_> {
    type Answer = Answer;

    async fn exchange(&mut self, ticket: Ticket) -> Result<Answer, Problem> {
        let body = request_body(&self.session.row(ticket.sequence).body.text, ticket.sequence);
        exchange(self.session, self.channel, &self.uri, body).await
    }

    fn check(&self, ticket: Ticket, answer: &Answer) -> Ending {
        check(self.session, ticket, answer)
    }
}

pub(crate) struct Answer {
    /// The headers with `grpc-status`: the trailers, or the head of a response without a body.
    status: HeaderMap,
    body: Bytes,
}

/// A frame with the prepared message followed by the id: fields may come in any order.
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
    let mut sender = channel.sender(&session.target).await?;
    let mut request = Request::post(uri)
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(deadline) = session.target.deadline {
        request = request.header("grpc-timeout", format!("{}m", deadline.as_millis()));
    }
    let request = request
        .body(Full::new(body))
        .map_err(|error| Problem::broken("connection broken", error.to_string()))?;
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
    pub(crate) async fn sender(&self, target: &Target) -> Result<SendRequest<Full<Bytes>>, Problem> {
        let mut kept = self.sender.lock().await;
        if let Some(sender) = kept.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let stream = target.address.connect().await?;
        let (sender, connection) = handshake(LocalExecutor, TokioIo::new(stream))
            .await
            .map_err(|error| Problem::unreachable("connect failed", error.to_string()))?;
        // Ends with its connection, at the latest when its local set is dropped; the affected requests report
        // the failure.
        tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
        *kept = Some(sender.clone());
        Ok(sender)
    }
}

/// Runs hyper's tasks on the generator's thread.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

fn check(session: &Session, ticket: Ticket, answer: &Answer) -> Ending {
    let header = |name| answer.status.get(name).and_then(|value| value.to_str().ok());
    let code = header("grpc-status").and_then(|code| code.parse::<u16>().ok());
    let text = || header("grpc-message").unwrap_or_default().to_owned();
    match code {
        Some(0) => {}
        None => return Ending::Failed(Problem::new("no grpc-status", "")),
        Some(code) => {
            let problem = Problem::new(format!("grpc {}", code_name(code)), text());
            // The caller's fault, overload and not ready; the rest is the server's fault.
            let refused = matches!(code, 3 | 4 | 5 | 8 | 12 | 14);
            return if refused { Ending::Refused(problem) } else { Ending::Failed(problem) };
        }
    }
    let message = frame::decode(&answer.body)
        .map_err(|fault| fault.to_string())
        .and_then(|message| ModelInferResponse::decode(message).map_err(|error| error.to_string()));
    let expected = &session.row(ticket.sequence).expected;
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
    Problem::broken(reason, format!("{error}{cause}"))
}
