//! `flyball.v1.Decisions/Decide`: the head's part in a call, then the walk.

use super::infer::timeout;
use super::{encoding, framed, refused};
use crate::body;
use crate::callers::Visit;
use crate::http::idempotency_key;
use crate::lane_thread::LaneContext;
use crate::reply::Reply;
use ::http::Request;
use bytestring::ByteString;
use flyball_core::{Fault, Nanos, Protocol};
use flyball_plane::{Arrival, DecisionRequest, Walk, serve};
use flyball_telemetry::LaneSink;
use flyball_wire::coding::Coding;
use flyball_wire::{GrpcDecision, GrpcReply, frame};
use hyper::body::Incoming;
use std::time::Duration;

/// A call for decisions whose head has been read, and which is counted from here on.
pub(crate) struct Decide {
    walk: Walk<LaneSink>,
    visit: Visit,
    head: Result<Head, Fault>,
    body: Incoming,
}

struct Head {
    deadline: Option<Nanos>,
    coding: Coding,
    idempotency_key: Option<ByteString>,
}

impl Decide {
    pub(super) fn begin(context: &LaneContext, mut visit: Visit, request: Request<Incoming>) -> Decide {
        let walk = context.begin_walk(Protocol::Grpc, &mut visit, request.headers(), Duration::ZERO);
        let headers = request.headers();
        let head = timeout(headers).and_then(|timeout| {
            let (coding, idempotency_key) = (encoding::of(headers)?, idempotency_key(headers)?);
            Ok(Head { deadline: walk.after(timeout), coding, idempotency_key })
        });
        Decide { walk, visit, head, body: request.into_body() }
    }

    pub(super) async fn finish(mut self, context: &LaneContext) -> Reply {
        let head = self.head.as_mut().ok();
        let (deadline, key) = head.map_or((None, None), |head| (head.deadline, head.idempotency_key.take()));
        let (config, part) = (&context.shared.config, context.shared.bodies.part());
        let (_in_flight, standing) = self.visit.split();
        let dialect = GrpcDecision::new(key);
        let body = async {
            let body = body::read_from(standing, self.body, true, config, &part).await?;
            let coding = self.head?.coding;
            let message =
                encoding::opened(frame::unary(&body)?, coding, config.body_bytes_max, &part).await?;
            dialect.named(&message)?;
            Ok(message)
        };
        let arrival = Arrival { walk: self.walk, body, deadline };
        match serve(&context.lane, &DecisionRequest(&dialect), arrival).await {
            GrpcReply::Frame(frame) => framed(Some(frame)),
            status => refused(&status),
        }
    }
}
