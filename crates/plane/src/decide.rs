//! The whole life of one decision. Start reading here.
//!
//! parse → route → admit → features → tensor → queue → infer → policy → record → respond: `Stage` in `core` names them in this
//! order, and each has a file of its name in `stages/`. `request.rs` is the frame around the walk, the same for every request.
//! Queue and infer happen in `batch.rs`, the second walk; shadows run after the answer, in `shadow_walk.rs`, the third.

#[cfg(test)]
mod tests;

use crate::decision_walk::DecisionWalk;
use crate::idempotency::{Claimed, claim};
use crate::plan::{ModelStep, Plan};
use crate::stages::admit::Admitted;
use crate::stages::{parse::parse, queue::queue, respond::respond};
use crate::walk::Walk;
use crate::{Decision, Lane, shadow_walk};
use bytes::Bytes;
use flyball_core::{DecisionDialect, Decisions, Fault, FaultKind, Sink, Stage};
use std::sync::Arc;

/// Decides the rows of one request.
pub(crate) async fn decide<S: Sink, D: DecisionDialect>(
    lane: &Lane<S>,
    dialect: &D,
    decision: Arc<Decision<S::Model>>,
    body: &Bytes,
    walk: &mut Walk<S>,
) -> Result<D::Reply, Fault> {
    let mut buffers = lane.services.buffers.lend();
    let ask = walk.stage(Stage::Parse, parse(lane, dialect, &decision, body, &mut buffers))?;
    walk.due(ask.timeout, decision.deadline);
    let claimed = claim(lane, &decision, &ask, body, walk).await;
    let claim = match walk.stage(Stage::Route, claimed)? {
        Claimed::First(claim) => claim,
        Claimed::Answered(earlier) => {
            let reply = walk.stage(Stage::Respond, respond(lane, dialect, &earlier))?;
            lane.sink.repeated(&decision.meter, earlier.rows.len());
            return Ok(reply);
        }
    };
    let mut decided = DecisionWalk::new(lane, &decision, &ask, buffers, claim);
    let decisions = decided.route_to_record(walk).await?;
    let reply = walk.stage(Stage::Respond, respond(lane, dialect, &decisions))?;
    let buffers = decided.delivered(decisions);
    shadow_walk::offer(lane, decision, buffers);
    Ok(reply)
}

impl<S: Sink> DecisionWalk<'_, S> {
    /// One attempt, and a second for rows whose remedy is to run again; never a third.
    async fn route_to_record(&mut self, walk: &mut Walk<S>) -> Result<Decisions, Fault> {
        self.route();
        walk.stage(Stage::Route, ());
        self.reserve_slots();
        self.attempt(&self.first_plan(walk), walk).await;
        if let Some(plan) = self.second_plan(walk) {
            self.attempt(&plan, walk).await;
        }
        self.explain(walk).await;
        let decisions = self.answer(walk);
        walk.stage(Stage::Policy, ());
        let recorded = self.record(decisions, walk).await;
        walk.stage(Stage::Record, recorded)
    }

    /// Decides the open rows as the plan says.
    async fn attempt(&mut self, plan: &Plan<'_>, walk: &mut Walk<S>) {
        if let Some(outcome) = plan.outcome {
            return self.decide_open(outcome);
        }
        let mut admitted = self.admit(plan);
        walk.stage(Stage::Admit, ());
        self.features(plan).await;
        walk.stage(Stage::Features, ());
        self.policy_before_models(plan, walk).await;
        for step in plan.steps {
            let rows = self.buffers.rows_where(|state| state.open() && state.variant == step.variant);
            if !rows.is_empty() {
                walk.rows += if step.first { rows.len() } else { 0 };
                admitted = match self.run(step, &rows, admitted, plan, walk).await {
                    Err(fault) if fault.kind == FaultKind::RunFailed && rows.len() > 1 => {
                        self.run_apart(step, &rows, plan, walk).await
                    }
                    ran => self.settle(&rows, ran),
                };
                self.policy(step, &rows).await;
                walk.stage(Stage::Policy, ());
            }
            self.buffers.done_with(rows);
        }
    }

    /// Runs one model for these rows, in batches of its maximum size. Rows that have its score are not run again.
    pub(crate) async fn run(
        &mut self,
        step: &ModelStep,
        rows: &[usize],
        admitted: Option<Admitted>,
        plan: &Plan<'_>,
        walk: &mut Walk<S>,
    ) -> Result<Admitted, Fault> {
        let Admitted { variant, mut permit } = self.admit_step(step, rows.len(), admitted, plan, walk)?;
        let model = &self.decision.models[step.model];
        for rows in rows.chunks(model.rows_at_once()) {
            if self.buffers.unscored(rows, step.model) {
                let inputs = walk.stage(Stage::Tensor, self.tensors(step, rows));
                let ticket = self.ticket(permit, plan, walk);
                // Stamps queue and infer.
                let (ran, returned) = walk.ran(queue(self.lane, model, inputs, ticket).await)?;
                self.scores(step, rows, ran)?;
                permit = returned;
            }
        }
        Ok(Admitted { variant, permit })
    }
}
