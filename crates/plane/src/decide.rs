//! The whole life of one request. Start reading here.
//!
//! parse → route → admit → features → tensor → queue → infer → policy → record → respond; `Stage` in `core` names them
//! in this order. Every transport calls `decide`, with an `Inference` or a `Governed` in hand: tensors in and out, or
//! named fields in and a decision out (`governed.rs`). Queue and infer happen in `batch.rs`, the second walk.

#[cfg(test)]
mod tests;

use crate::batch::{self, Ticket};
use crate::candidate::route_drawn;
use crate::stages::admit::{Ask, admit, judge};
use crate::stages::{classify::classify, tensor::tensor};
use crate::walk::Walk;
use crate::{Lane, Model};
use bytes::Bytes;
use flyball_core::{Answer, Dialect, Fault, ModelRef, Nanos, Priority, Sink, Stage};
use std::sync::Arc;

/// A request whose head has been read. The body may still be on its way: a client that never sends the rest is
/// counted, as abandoned or as timed out.
pub struct Arrival<S: Sink, B> {
    pub walk: Walk<S>,
    pub body: B,
    pub deadline: Option<Nanos>,
}

/// A kind of request: what is particular to it on its way from a body to a reply.
pub trait Request<S: Sink> {
    type Reply;
    /// What it asks for, once that is found.
    type Found;

    /// What the head asks for, or a glance at the body; none: only parsing tells.
    fn find(&self, lane: &Lane<S>, body: &Bytes) -> Option<Result<Self::Found, Fault>>;

    /// What measures it, and the model that it needs first; none: it needs none.
    fn first(found: &Self::Found) -> (&Arc<S::Model>, Option<&Model<S::Model>>);

    /// Whether it may still be answered, although its model would refuse a request of which nothing else is known.
    fn may_yet(&self, found: &Self::Found, refusal: &Fault, body: &Bytes, walk: &Walk<S>) -> bool;

    /// The ten stages.
    fn serve(
        &self,
        lane: &Lane<S>,
        found: Option<Self::Found>,
        body: Bytes,
        walk: &mut Walk<S>,
    ) -> impl Future<Output = Result<Self::Reply, Fault>>;

    fn refuse(&self, fault: &Fault) -> Self::Reply;
}

pub async fn decide<S, R, B>(lane: &Lane<S>, request: &R, arrival: Arrival<S, B>) -> R::Reply
where
    S: Sink,
    R: Request<S>,
    B: Future<Output = Result<Bytes, Fault>>,
{
    let mut walk = arrival.walk;
    walk.deadline = arrival.deadline;
    match serve(lane, request, arrival.body, &mut walk).await {
        Ok(reply) => {
            walk.answered();
            reply
        }
        Err(fault) => {
            count_under(lane, request, &mut walk);
            walk.pass(Stage::Record);
            walk.stage(Stage::Respond, ());
            walk.faulted(&fault);
            request.refuse(&fault)
        }
    }
}

async fn serve<S, R, B>(lane: &Lane<S>, request: &R, body: B, walk: &mut Walk<S>) -> Result<R::Reply, Fault>
where
    S: Sink,
    R: Request<S>,
    B: Future<Output = Result<Bytes, Fault>>,
{
    let body = body.await?;
    walk.body_arrived();
    let found = door(lane, request, &body, walk)?;
    request.serve(lane, found, body, walk).await
}

/// Refuses before the body is parsed, where its head says enough to know that it will be refused. Gives what the head
/// asks for, so that it is not looked up twice.
fn door<S: Sink, R: Request<S>>(
    lane: &Lane<S>,
    request: &R,
    body: &Bytes,
    walk: &mut Walk<S>,
) -> Result<Option<R::Found>, Fault> {
    let Some(Ok(found)) = request.find(lane, body) else { return Ok(None) };
    let (meter, model) = R::first(&found);
    walk.routed(meter);
    let Some(model) = model else { return Ok(Some(found)) };
    let deadline = walk.deadline.or_else(|| walk.after(model.terms.deadline));
    match judge(lane, model, Ask { rows: 1, priority: Priority::Normal, deadline }) {
        Err(fault) if !request.may_yet(&found, &fault, body, walk) => walk.stage(Stage::Admit, Err(fault)),
        _ => Ok(Some(found)),
    }
}

/// Counts a request whose body never came under what its head names. One that was routed keeps its version: finding it
/// again would draw again, and charge a candidate's faults to the champion.
fn count_under<S: Sink, R: Request<S>>(lane: &Lane<S>, request: &R, walk: &mut Walk<S>) {
    if !walk.is_routed()
        && let Some(Ok(found)) = request.find(lane, &Bytes::new())
    {
        walk.routed(R::first(&found).0);
    }
}

/// The lane's own random numbers decide who gets a candidate.
fn drawn<S: Sink>(lane: &Lane<S>, named: &ModelRef) -> Result<Arc<Model<S::Model>>, Fault> {
    route_drawn(&lane.plane.routes.load(), named, || lane.desk.ids.draw())
}

/// Tensors in, a model's outputs out, in a dialect of the Open Inference Protocol.
pub struct Inference<'d, D>(pub &'d D);

impl<S: Sink, D: Dialect> Request<S> for Inference<'_, D> {
    type Reply = D::Reply;
    type Found = Arc<Model<S::Model>>;

    fn find(&self, lane: &Lane<S>, body: &Bytes) -> Option<Result<Self::Found, Fault>> {
        self.0.model(body).map(|named| drawn(lane, &named))
    }

    fn first(model: &Self::Found) -> (&Arc<S::Model>, Option<&Model<S::Model>>) {
        (&model.meter, Some(model))
    }

    /// A deadline in the body can only be earlier than the head's, but it may be later than what the deployment promises.
    fn may_yet(&self, _model: &Self::Found, _refusal: &Fault, body: &Bytes, walk: &Walk<S>) -> bool {
        let may_be_later = walk.deadline.is_none() && self.0.mentions(body, "timeout");
        may_be_later || self.0.mentions(body, "priority")
    }

    async fn serve(
        &self,
        lane: &Lane<S>,
        found: Option<Self::Found>,
        body: Bytes,
        walk: &mut Walk<S>,
    ) -> Result<D::Reply, Fault> {
        let request = self.0.parse(&body, &lane.plane.limits.request, lane.spare());
        let mut request = walk.stage(Stage::Parse, request)?;
        let model = match found {
            Some(model) => Ok(model),
            None => drawn(lane, &request.model).inspect(|model| walk.routed(&model.meter)),
        };
        let model = walk.stage(Stage::Route, model)?;
        walk.due(request.timeout, model.terms.deadline);
        let ask =
            Ask { rows: model.rows_asked(&request), priority: request.priority, deadline: walk.deadline };
        let permit = walk.stage(Stage::Admit, admit(lane, &model, ask))?;
        walk.pass(Stage::Features);
        let (inputs, places) = walk.stage(Stage::Tensor, tensor(&mut request, &model))?;
        walk.rows = batch::rows(&inputs);
        let ticket = Ticket::new(permit, request.priority, walk.deadline);
        let mut outputs = walk.ran(batch::run(lane, &model, inputs, ticket).await)?.0.outputs;
        walk.pass(Stage::Policy);
        walk.pass(Stage::Record);
        classify(&mut outputs, &request.outputs, &model)?;
        let id = request.id.as_deref();
        let answer =
            Answer { model: &model.name, version: &model.version, id, outputs: &outputs, places: &places };
        let reply = self.0.answer(&answer, lane.out.borrow_mut().with_room());
        lane.keep(outputs);
        walk.stage(Stage::Respond, reply)
    }

    fn refuse(&self, fault: &Fault) -> D::Reply {
        self.0.refuse(fault)
    }
}
