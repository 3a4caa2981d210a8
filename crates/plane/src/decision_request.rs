//! A request for decisions as `request.rs` serves it: named fields in, decisions out. The walk itself is `decide.rs`.

use crate::decide::decide;
use crate::remedies::remedy;
use crate::request::Request;
use crate::stages::route::decision_target;
use crate::walk::Walk;
use crate::{Decision, Lane, Model};
use bytes::Bytes;
use flyball_core::{DecisionDialect, Fault, Sink, Stage};
use flyball_decision::Remedy;
use std::sync::Arc;

/// A request for decisions, in a transport's dialect.
pub struct DecisionRequest<'d, D>(pub &'d D);

impl<S: Sink, D: DecisionDialect> Request<S> for DecisionRequest<'_, D> {
    type Reply = D::Reply;
    type Target = Arc<Decision<S::Model>>;

    fn target(&self, lane: &Lane<S>, walk: &Walk<S>, _: &Bytes) -> Option<Result<Self::Target, Fault>> {
        Some(decision_target(&lane.plane.routes.load(), &walk.access, self.0.decision()))
    }

    fn first_model(decision: &Self::Target) -> (&Arc<S::Model>, Option<&Model<S::Model>>) {
        (&decision.meter, decision.first_model().map(|model| &**model))
    }

    /// If the refusal has a remedy, no model runs, rows may go to another variant, or an answer is kept under the key.
    fn may_still_answer(&self, decision: &Self::Target, refusal: &Fault, _: &Bytes, _: &Walk<S>) -> bool {
        let program = &decision.program;
        program.policy.kill_switch().is_some()
            || program.route.splits()
            || self.0.keyed()
            || remedy(&program.remedies, refusal.kind) != Remedy::Error
    }

    async fn stages(
        &self,
        lane: &Lane<S>,
        target: Option<Self::Target>,
        body: Bytes,
        walk: &mut Walk<S>,
    ) -> Result<D::Reply, Fault> {
        let found = match target {
            Some(decision) => Ok(decision),
            None => decision_target(&lane.plane.routes.load(), &walk.access, self.0.decision())
                .or_else(|fault| walk.stage(Stage::Route, Err(fault))),
        };
        decide(lane, self.0, found?, &body, walk).await
    }

    fn refuse(&self, fault: &Fault) -> D::Reply {
        self.0.refuse(fault)
    }
}
