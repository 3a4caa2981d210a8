//! `grpc.reflection`: the stream of queries; `wire` answers them.

use super::stream::{Messages, duplex};
use super::{encoding, ending, question_bytes_max, read, refuse, status_of, too_large, trailers};
use crate::callers::Visit;
use crate::drain::Phase;
use crate::lane_thread::LaneContext;
use crate::reply::Reply;
use ::http::{HeaderMap, Request};
use bytes::Bytes;
use flyball_core::{Fault, FaultKind, GrpcCode, Stage};
use flyball_wire::coding::Coding;
use flyball_wire::{frame, reflection};
use hyper::body::Incoming;
use std::rc::Rc;
use tokio::sync::mpsc;
use tokio::time::timeout;

pub(super) fn begin(context: &Rc<LaneContext>, visit: Visit, request: Request<Incoming>) -> Reply {
    let may_ask = visit.access.require_any();
    let (in_flight, admitted) = visit.split();
    let coding = match admitted.and(may_ask).and_then(|()| encoding::of(request.headers())) {
        Ok(coding) => coding,
        Err(fault) => return refuse(&fault),
    };
    let context = Rc::clone(context);
    duplex(|answers| async move {
        let _in_flight = in_flight;
        let end = tokio::select! {
            biased;
            served = serve(&context, coding, request.into_body(), answers) => served,
            () = context.shared.drain.reached(Phase::LameDuck) => {
                Ok(ending(GrpcCode::Unavailable, "the server is shutting down"))
            }
        };
        end.unwrap_or_else(|fault| trailers(Some(&status_of(&fault))))
    })
}

async fn serve(
    context: &LaneContext,
    coding: Coding,
    body: Incoming,
    answers: mpsc::Sender<Bytes>,
) -> Result<HeaderMap, Fault> {
    let bytes_max = question_bytes_max(context);
    let patience = context.shared.config.body_timeout();
    let mut messages = Messages::new(context, body, bytes_max);
    while let Some(message) = messages.next().await.map_err(|fault| too_large(bytes_max, fault))? {
        let message = encoding::opened(message.framed, coding, bytes_max, &message.part).await;
        let message = message.map_err(|fault| too_large(bytes_max, fault))?;
        let answer = frame::encode_message(&reflection::answer(read(&message)?));
        let answer = answer.ok_or_else(|| Fault::malformed("the answer is larger than a message can be"))?;
        let sent = timeout(patience, answers.send(answer)).await.map_err(|_elapsed| {
            let text = format!("the answers were not read within {} ms", patience.as_millis());
            Fault::new(FaultKind::BodyTimeout, Stage::Respond, text)
        });
        if sent?.is_err() {
            break;
        }
    }
    Ok(trailers(None))
}
