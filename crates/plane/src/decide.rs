//! The whole life of one request. Start reading here.
//!
//! parse → route → admit → features → tensor → queue → infer → policy → record → respond; `Stage` in `core` names them
//! in this order. Every transport calls `decide`; queue and infer happen in `batch.rs`, the second walk.

use crate::stages::{admit::admit, route::route, tensor::tensor};
use crate::walk::Walk;
use crate::{Lane, batch};
use bytes::Bytes;
use flyball_core::{Answer, Dialect, Fault, ModelRef, Nanos, Sink, Stage};

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
    let outcome = serve(lane, dialect, arrival.body, &mut walk).await;
    if outcome.is_err() {
        count_under(lane, dialect.model(), &mut walk);
    }
    walk.pass(Stage::Record);
    let reply = outcome.and_then(|answer| dialect.answer(&answer));
    walk.stage(Stage::Respond, ());
    match reply {
        Ok(reply) => {
            walk.answered();
            reply
        }
        Err(fault) => {
            walk.faulted(&fault);
            dialect.refuse(&fault)
        }
    }
}

async fn serve<S, D, B>(lane: &Lane<S>, dialect: &D, body: B, walk: &mut Walk<S>) -> Result<Answer, Fault>
where
    S: Sink,
    D: Dialect,
    B: Future<Output = Result<Bytes, Fault>>,
{
    let body = body.await?;
    walk.body_arrived();
    let request = walk.stage(Stage::Parse, dialect.parse(&body, &lane.plane.limits.request))?;
    let model = walk.stage(Stage::Route, route(&lane.plane.routes.load(), &request.model))?;
    walk.routed(&model.meter);
    let permit = walk.stage(Stage::Admit, admit(&lane.plane, &model, walk.deadline))?;
    walk.pass(Stage::Features);
    let (inputs, wanted) = walk.stage(
        Stage::Tensor,
        tensor(request.inputs, &request.outputs, &model.signature, model.batching.on()),
    )?;
    let outputs = batch::run(lane, &model, inputs, permit, walk).await?;
    walk.pass(Stage::Policy);
    let outputs = wanted.pick(outputs, request.binary_outputs);
    Ok(Answer { model: model.name.clone(), version: model.version.clone(), id: request.id, outputs })
}

/// A request that never got as far as its route is still counted under the model that its head names.
fn count_under<S: Sink>(lane: &Lane<S>, named: Option<&ModelRef>, walk: &mut Walk<S>) {
    if let Some(Ok(model)) = named.map(|named| route(&lane.plane.routes.load(), named)) {
        walk.routed(&model.meter);
    }
}
