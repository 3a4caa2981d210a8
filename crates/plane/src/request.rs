//! The frame around every request: wait for the body, refuse early if possible, walk, record the outcome once.
//!
//! Every transport enters here, with a `DecisionRequest` (`decide.rs`) or an `Inference` (`inference.rs`).

use crate::stages::admit::{Demand, check};
use crate::walk::Walk;
use crate::{Lane, Model};
use bytes::Bytes;
use flyball_core::{Fault, Nanos, Priority, Sink, Stage};
use std::sync::Arc;

/// A request whose head has been read. The body may still arrive: a client that never sends the rest is counted as abandoned
/// or timed out.
pub struct Arrival<S: Sink, B> {
    pub walk: Walk<S>,
    pub body: B,
    pub deadline: Option<Nanos>,
}

/// A kind of request: for decisions or for a model.
pub trait Request<S: Sink> {
    type Reply;
    /// The model or decision that it is for.
    type Target;

    /// Looks up the target by the head or a glance at the body; none if only parsing can find it.
    ///
    /// The same routes, access and draw give the same target, so the early refusal and the walk never disagree.
    fn target(&self, lane: &Lane<S>, walk: &Walk<S>, body: &Bytes) -> Option<Result<Self::Target, Fault>>;

    /// Its meter, and the model that runs first; none if no model runs.
    fn first_model(target: &Self::Target) -> (&Arc<S::Model>, Option<&Model<S::Model>>);

    /// Whether the rest of the request could avert this early refusal.
    fn may_still_answer(&self, target: &Self::Target, refusal: &Fault, body: &Bytes, walk: &Walk<S>) -> bool;

    /// The ten stages.
    fn stages(
        &self,
        lane: &Lane<S>,
        target: Option<Self::Target>,
        body: Bytes,
        walk: &mut Walk<S>,
    ) -> impl Future<Output = Result<Self::Reply, Fault>>;

    fn refuse(&self, fault: &Fault) -> Self::Reply;
}

/// Serves one request from its head to its reply.
pub async fn serve<S, R, B>(lane: &Lane<S>, request: &R, arrival: Arrival<S, B>) -> R::Reply
where
    S: Sink,
    R: Request<S>,
    B: Future<Output = Result<Bytes, Fault>>,
{
    let mut walk = arrival.walk;
    walk.deadline = arrival.deadline;
    match enter(lane, request, arrival.body, &mut walk).await {
        Ok(reply) => {
            walk.answered();
            reply
        }
        Err(fault) => {
            count_under_head(lane, request, &mut walk);
            walk.pass(Stage::Record);
            walk.stage(Stage::Respond, ());
            walk.faulted(&fault);
            request.refuse(&fault)
        }
    }
}

async fn enter<S, R, B>(lane: &Lane<S>, request: &R, body: B, walk: &mut Walk<S>) -> Result<R::Reply, Fault>
where
    S: Sink,
    R: Request<S>,
    B: Future<Output = Result<Bytes, Fault>>,
{
    let body = body.await?;
    walk.body_arrived();
    let target = early_refusal(lane, request, &body, walk)?;
    request.stages(lane, target, body, walk).await
}

/// Refuses before the body is parsed, if admission would refuse anyway. Returns the target, so that it is not looked up
/// twice.
fn early_refusal<S: Sink, R: Request<S>>(
    lane: &Lane<S>,
    request: &R,
    body: &Bytes,
    walk: &mut Walk<S>,
) -> Result<Option<R::Target>, Fault> {
    let Some(Ok(target)) = request.target(lane, walk, body) else { return Ok(None) };
    let (meter, model) = R::first_model(&target);
    walk.routed(meter);
    let Some(model) = model else { return Ok(Some(target)) };
    let deadline = walk.deadline.or_else(|| walk.after(model.terms.deadline));
    match check(lane, model, Demand { rows: 1, priority: Priority::Normal, deadline }) {
        Err(fault) if !request.may_still_answer(&target, &fault, body, walk) => {
            walk.stage(Stage::Admit, Err(fault))
        }
        _ => Ok(Some(target)),
    }
}

/// Counts an unrouted request, such as one whose body never came, under the target that its head names.
fn count_under_head<S: Sink, R: Request<S>>(lane: &Lane<S>, request: &R, walk: &mut Walk<S>) {
    if !walk.is_routed()
        && let Some(Ok(target)) = request.target(lane, walk, &Bytes::new())
    {
        walk.routed(R::first_model(&target).0);
    }
}
