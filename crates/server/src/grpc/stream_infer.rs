//! `ModelStreamInfer`: every message on the stream is a request with a walk of its own, many of them at once; answers come
//! in the order of the requests, as Triton gives them.

use super::stream::{Messages, Received, duplex};
use super::{encoding, infer, refuse, trailers};
use crate::callers::{Visit, Visitor};
use crate::drain::Phase;
use crate::lane_thread::LaneContext;
use crate::reply::Reply;
use ::http::{HeaderMap, Request};
use bytes::Bytes;
use flyball_core::{Fault, GrpcCode, Nanos, Protocol};
use flyball_plane::{Arrival, Walk, decide};
use flyball_telemetry::LaneSink;
use flyball_wire::coding::Coding;
use flyball_wire::{GrpcDialect, GrpcReply, StreamDialect, StreamReply};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use hyper::body::Incoming;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Requests of one stream that are on their way at once; beyond it the stream is not read.
const IN_FLIGHT_MAX: usize = 256;

/// What the head says of all requests on the stream.
#[derive(Clone, Copy)]
struct Terms {
    coding: Coding,
    deadline: Option<Nanos>,
    /// The first fault ends the stream with its status, and is no message.
    faults_end_it: bool,
}

impl Terms {
    fn read(context: &LaneContext, headers: &HeaderMap) -> Result<Terms, Fault> {
        let now = context.lane.now();
        Ok(Terms {
            coding: encoding::of(headers)?,
            deadline: infer::timeout(headers)?.map(|timeout| now.after(timeout)),
            faults_end_it: headers.get("triton_grpc_error").is_some_and(|value| value == "true"),
        })
    }
}

pub(super) fn begin(context: &Rc<LaneContext>, visitor: Visitor, request: Request<Incoming>) -> Reply {
    if let Visitor::Nobody(fault) = &visitor {
        return refuse(fault);
    }
    match Terms::read(context, request.headers()) {
        Ok(terms) => {
            duplex(|answers| serve(Rc::clone(context), visitor, terms, request.into_body(), answers))
        }
        Err(fault) => refuse(&fault),
    }
}

async fn serve(
    context: Rc<LaneContext>,
    visitor: Visitor,
    terms: Terms,
    body: Incoming,
    answers: mpsc::Sender<Bytes>,
) -> HeaderMap {
    let mut messages = Messages::new(&context, body);
    let mut walks = FuturesOrdered::new();
    let mut reading = true;
    let mut over = pin!(reached(&context, terms.deadline));
    let mut leave = pin!(context.shared.drain.reached(Phase::LameDuck));
    let mut end = trailers(None);
    while reading || !walks.is_empty() {
        let room = reading && walks.len() < IN_FLIGHT_MAX;
        tokio::select! {
            biased;
            message = messages.next(), if room => {
                reading = matches!(message, Ok(Some(_)));
                if let Some(message) = message.transpose() {
                    let begun = Walk::begin(&context.lane, Protocol::Grpc, Duration::ZERO);
                    walks.push_back(walk(&context, begun, visitor.visit(), message, terms));
                }
            }
            Some((reply, last)) = walks.next(), if !walks.is_empty() => {
                let frame = match reply {
                    StreamReply::Answer(frame) => frame,
                    StreamReply::Fault { status, .. } if last || terms.faults_end_it => return trailers(Some(&status)),
                    StreamReply::Fault { message, .. } => message,
                };
                if answers.send(frame).await.is_err() {
                    return end;
                }
            }
            () = &mut over => {
                let text = "the deadline of the stream has passed".into();
                return ending(GrpcCode::DeadlineExceeded, text);
            }
            // What has come is still answered. An idle stream would hold its connection for the whole grace period.
            () = &mut leave, if room => {
                reading = false;
                end = ending(GrpcCode::Unavailable, "the server is shutting down; open the stream anew".into());
            }
        }
    }
    end
}

fn ending(code: GrpcCode, text: std::borrow::Cow<'static, str>) -> HeaderMap {
    trailers(Some(&GrpcReply::Status { code, text, retry_after_ms: None }))
}

/// Returns at the deadline; never where there is none.
async fn reached(context: &LaneContext, deadline: Option<Nanos>) {
    match deadline {
        Some(deadline) => tokio::time::sleep(deadline.since(context.lane.now())).await,
        None => std::future::pending().await,
    }
}

/// One request. A message that could not be read is one too, so that it is counted, but nothing comes after it.
async fn walk(
    context: &LaneContext,
    mut walk: Walk<LaneSink>,
    visit: Visit,
    message: Result<Received<'_>, Fault>,
    terms: Terms,
) -> (StreamReply, bool) {
    let last = message.is_err();
    walk.called_by(visit.caller);
    let (_in_flight, standing) = visit.split();
    let (framed, part) = match message {
        Ok(Received { framed, part }) => (Ok(framed), part),
        Err(fault) => (Err(fault), context.shared.bodies.part()),
    };
    let body = async {
        standing?;
        encoding::opened(framed?, terms.coding, &context.shared.config, &part).await
    };
    let dialect = StreamDialect::new(GrpcDialect { regions: context.shared.regions.clone() });
    (decide(&context.lane, &dialect, Arrival { walk, body, deadline: terms.deadline }).await, last)
}
