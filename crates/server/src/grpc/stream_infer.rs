//! `ModelStreamInfer`: every message of the stream is a request with its own walk.
//!
//! Many run at once; responses are sent in request order, as in Triton.

use super::stream::{Messages, Outbox, Received, duplex};
use super::{encoding, ending, refuse, trailers, walk};
use crate::callers::{Guest, Visit, Visitor};
use crate::drain::Phase;
use crate::lane_thread::LaneContext;
use crate::reply::Reply;
use ::http::{HeaderMap, Request};
use bytes::Bytes;
use flyball_core::{Fault, FaultKind, GrpcCode, Nanos, Protocol};
use flyball_plane::{Arrival, Inference, Walk, serve};
use flyball_telemetry::LaneSink;
use flyball_wire::coding::Coding;
use flyball_wire::{GrpcDialect, StreamDialect, StreamReply};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use hyper::body::Incoming;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Maximum requests in flight on one stream; beyond it the stream is not read.
const IN_FLIGHT_MAX: usize = 256;
/// Maximum bytes of them and of waiting responses; a single message may be larger.
///
/// Needed because the body budget does not count small messages.
const IN_FLIGHT_BYTES_MAX: usize = 1 << 20;

/// The terms of all requests on the stream, from its head.
#[derive(Clone, Copy)]
struct Terms {
    coding: Coding,
    deadline: Option<Nanos>,
    /// The first fault ends the stream with its status instead of sending a message.
    faults_end_it: bool,
}

impl Terms {
    fn read(context: &LaneContext, headers: &HeaderMap) -> Result<Terms, Fault> {
        let now = context.lane.now();
        Ok(Terms {
            coding: encoding::of(headers)?,
            deadline: walk::timeout(headers)?.map(|timeout| now.after(timeout)),
            faults_end_it: headers.get("triton_grpc_error").is_some_and(|value| value == "true"),
        })
    }
}

/// The bytes of messages in flight.
#[derive(Default)]
struct Load(Cell<usize>);

/// One message's share of them.
struct Weight<'l> {
    load: &'l Load,
    bytes: usize,
}

impl Load {
    fn add(&self, bytes: usize) -> Weight<'_> {
        self.0.set(self.0.get() + bytes);
        Weight { load: self, bytes }
    }
}

impl Weight<'_> {
    fn grow_to(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.bytes);
        self.load.0.set(self.load.0.get() + more);
        self.bytes += more;
    }
}

impl Drop for Weight<'_> {
    fn drop(&mut self) {
        self.load.0.set(self.load.0.get() - self.bytes);
    }
}

pub(super) fn begin(context: &Rc<LaneContext>, guest: Guest, request: Request<Incoming>) -> Reply {
    if let Visitor::Nobody(fault) = &guest.visitor {
        return refuse(fault);
    }
    match Terms::read(context, request.headers()) {
        Ok(terms) => {
            duplex(|answers| answer_stream(Rc::clone(context), guest, terms, request.into_body(), answers))
        }
        Err(fault) => refuse(&fault),
    }
}

async fn answer_stream(
    context: Rc<LaneContext>,
    mut guest: Guest,
    terms: Terms,
    body: Incoming,
    answers: mpsc::Sender<Bytes>,
) -> HeaderMap {
    let config = &context.shared.config;
    let mut messages = Messages::new(&context, body, config.body_bytes_max);
    let mut outbox = Outbox::new(answers, config.body_timeout());
    let load = Load::default();
    let mut walks = FuturesOrdered::new();
    let mut reading = true;
    let mut over = pin!(reached(&context, terms.deadline));
    let mut leave = pin!(context.shared.drain.reached(Phase::LameDuck));
    let mut end = trailers(None);
    while reading || !walks.is_empty() || outbox.len() > 0 {
        let room = walks.len() + outbox.len() < IN_FLIGHT_MAX
            && (walks.len() + outbox.len() == 0 || load.0.get() + outbox.bytes() <= IN_FLIGHT_BYTES_MAX);
        tokio::select! {
            biased;
            message = messages.next(), if reading && room => {
                reading = matches!(message, Ok(Some(_)));
                if let Some(message) = message.transpose() {
                    let begun = Walk::begin(&context.lane, Protocol::Grpc, Duration::ZERO);
                    let weight = load.add(message.as_ref().map_or(0, |message| message.framed.message.len()));
                    let visit = guest.visit(context.shared.callers.as_ref());
                    walks.push_back(answer(&context, begun, visit, message, terms, weight));
                }
            }
            Some((reply, last)) = walks.next(), if !walks.is_empty() => {
                let put = match reply {
                    StreamReply::Answer(frame) => outbox.put(frame),
                    StreamReply::Fault { status, .. } if last || terms.faults_end_it => {
                        (reading, end) = (false, trailers(Some(&status)));
                        walks = FuturesOrdered::new();
                        Ok(())
                    }
                    StreamReply::Fault { message, .. } => outbox.put(message),
                };
                if put.is_err() {
                    return end;
                }
            }
            sent = outbox.send(), if outbox.len() > 0 => if sent.is_err() {
                let text = format!("the answers were not read within {} ms", config.body_timeout_ms);
                return ending(GrpcCode::DeadlineExceeded, text);
            },
            () = &mut over => {
                return ending(GrpcCode::DeadlineExceeded, "the deadline of the stream has passed");
            }
            // Received requests are still answered. An idle stream would hold its connection for the whole grace period.
            () = &mut leave, if reading => {
                reading = false;
                end = ending(GrpcCode::Unavailable, "the server is shutting down; open the stream anew");
            }
        }
    }
    end
}

/// Returns at the deadline; without one, never.
async fn reached(context: &LaneContext, deadline: Option<Nanos>) {
    match deadline {
        Some(deadline) => tokio::time::sleep(deadline.since(context.lane.now())).await,
        None => std::future::pending().await,
    }
}

/// Answers one request. Returns whether it was the stream's last.
///
/// An unreadable message is a request as well, so that it is counted, but ends the stream, as does a caller that is
/// no longer known.
async fn answer(
    context: &LaneContext,
    mut walk: Walk<LaneSink>,
    mut visit: Visit,
    message: Result<Received<'_>, Fault>,
    terms: Terms,
    mut weight: Weight<'_>,
) -> (StreamReply, bool) {
    let unknown = visit.admitted.as_ref().is_err_and(|fault| fault.kind == FaultKind::Unauthenticated);
    let last = message.is_err() || unknown;
    walk.called_by(visit.caller, visit.access.clone());
    walk.comes_from(visit.name.take(), None);
    let (_in_flight, admitted) = visit.split();
    let (framed, part) = match message {
        Ok(Received { framed, part }) => (Ok(framed), part),
        Err(fault) => (Err(fault), context.shared.bodies.part()),
    };
    let config = &context.shared.config;
    let body = async {
        admitted?;
        let message = encoding::opened(framed?, terms.coding, config.body_bytes_max, &part).await?;
        weight.grow_to(message.len());
        Ok(message)
    };
    let dialect = StreamDialect::new(GrpcDialect { regions: context.shared.regions.clone() });
    (serve(&context.lane, &Inference(&dialect), Arrival { walk, body, deadline: terms.deadline }).await, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_weighs_what_it_inflates_to_and_nothing_once_it_is_done() {
        let load = Load::default();
        let (plain, mut packed) = (load.add(100), load.add(50));
        packed.grow_to(5000);
        packed.grow_to(10);
        assert_eq!(load.0.get(), 5100);
        drop(packed);
        assert_eq!(load.0.get(), 100);
        drop(plain);
        assert_eq!(load.0.get(), 0);
    }
}
