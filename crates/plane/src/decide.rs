//! The whole life of one request. Start reading here.
//!
//! parse → route → admit → features → tensor → queue → infer → policy → record → respond; `Stage` in `core` names them
//! in this order. Every transport calls `decide`; queue and infer happen in `batch.rs`, the second walk.

use crate::stages::admit::{Ask, admit, judge};
use crate::stages::{classify::classify, route::route, tensor::tensor};
use crate::walk::Walk;
use crate::{Lane, Model, batch};
use bytes::Bytes;
use flyball_core::{Answer, Dialect, Fault, Nanos, Priority, Sink, Stage};
use std::sync::Arc;

/// A request whose head has been read. The body may still be on its way: a client that never sends the rest is
/// counted, as abandoned or as timed out.
pub struct Arrival<S: Sink, B> {
    pub walk: Walk<S>,
    pub body: B,
    pub deadline: Option<Nanos>,
}

pub async fn decide<S, D, B>(lane: &Lane<S>, dialect: &D, arrival: Arrival<S, B>) -> D::Reply
where
    S: Sink,
    D: Dialect,
    B: Future<Output = Result<Bytes, Fault>>,
{
    let mut walk = arrival.walk;
    walk.deadline = arrival.deadline;
    let reply = serve(lane, dialect, arrival.body, &mut walk).await;
    if reply.is_err() {
        count_under(lane, dialect, &mut walk);
    }
    match reply {
        Ok(reply) => {
            walk.answered();
            reply
        }
        Err(fault) => {
            walk.pass(Stage::Record);
            walk.stage(Stage::Respond, ());
            walk.faulted(&fault);
            dialect.refuse(&fault)
        }
    }
}

async fn serve<S, D, B>(lane: &Lane<S>, dialect: &D, body: B, walk: &mut Walk<S>) -> Result<D::Reply, Fault>
where
    S: Sink,
    D: Dialect,
    B: Future<Output = Result<Bytes, Fault>>,
{
    let body = body.await?;
    walk.body_arrived();
    let named = door(lane, dialect, &body, walk)?;
    let request = dialect.parse(&body, &lane.plane.limits.request, lane.spare());
    let mut request = walk.stage(Stage::Parse, request)?;
    let model = match named {
        Some(model) => Ok(model),
        None => route(&lane.plane.routes.load(), &request.model).inspect(|model| walk.routed(&model.meter)),
    };
    let model = walk.stage(Stage::Route, model)?;
    walk.due(request.timeout, model.terms.deadline);
    let ask = Ask { rows: model.rows_asked(&request), priority: request.priority, deadline: walk.deadline };
    let permit = walk.stage(Stage::Admit, admit(lane, &model, ask))?;
    walk.pass(Stage::Features);
    let (inputs, places) = walk.stage(Stage::Tensor, tensor(&mut request, &model))?;
    let mut outputs = batch::run(lane, &model, inputs, request.priority, permit, walk).await?;
    walk.pass(Stage::Policy);
    walk.pass(Stage::Record);
    classify(&mut outputs, &request.outputs, &model)?;
    let id = request.id.as_deref();
    let answer =
        Answer { model: &model.name, version: &model.version, id, outputs: &outputs, places: &places };
    let reply = dialect.answer(&answer, lane.out.borrow_mut().with_room());
    lane.keep(outputs);
    walk.stage(Stage::Respond, reply)
}

/// Refuses before the body is parsed, where its head says enough to know that it will be refused. Gives the model that the
/// head names, so that it is not looked up twice.
fn door<S: Sink, D: Dialect>(
    lane: &Lane<S>,
    dialect: &D,
    body: &Bytes,
    walk: &mut Walk<S>,
) -> Result<Option<Arc<Model<S::Model>>>, Fault> {
    let named = dialect.model(body).map(|named| route(&lane.plane.routes.load(), &named));
    let Some(Ok(model)) = named else { return Ok(None) };
    walk.routed(&model.meter);
    let deadline = walk.deadline.or_else(|| walk.after(model.terms.deadline));
    let Err(fault) = judge(lane, &model, Ask { rows: 1, priority: Priority::Normal, deadline }) else {
        return Ok(Some(model));
    };
    // A deadline in the body can only be earlier than the head's, but it may be later than what the deployment promises.
    let may_be_later = walk.deadline.is_none() && dialect.mentions(body, "timeout");
    if may_be_later || dialect.mentions(body, "priority") {
        return Ok(Some(model));
    }
    walk.stage(Stage::Admit, Err(fault))
}

/// A request whose body never came is still counted under the model that its head names.
fn count_under<S: Sink, D: Dialect>(lane: &Lane<S>, dialect: &D, walk: &mut Walk<S>) {
    let named = dialect.model(&Bytes::new());
    if let Some(Ok(model)) = named.map(|named| route(&lane.plane.routes.load(), &named)) {
        walk.routed(&model.meter);
    }
}
