//! The reasons of a decision: the rules that fired, and the inputs that moved the score towards the adverse end.
//!
//! Contributions of trees and linear models are computed; any other model is run again with each column at its baseline, if
//! time is left.

mod contributions;

use crate::decision_walk::DecisionWalk;
use crate::row_buffers::Progress;
use crate::stages::admit::{Demand, admit};
use crate::stages::queue::{RunTicket, queue};
use crate::walk::Walk;
use flyball_core::Sink;
use flyball_decision::{Ablation, Explainer};
use std::time::Duration;

pub(crate) use contributions::{Explaining, Reasons, of_rules};
use contributions::{add, contributions, largest, wanted};

impl<S: Sink> DecisionWalk<'_, S> {
    /// Finds the reasons of each decided row.
    pub(crate) async fn explain(&mut self, walk: &mut Walk<S>) {
        let policy = &self.decision.program.policy;
        for row in 0..self.buffers.states.len() {
            let state = &self.buffers.states[row];
            let Progress::Decided { verdict, score } = &state.progress else { continue };
            let mut reasons = of_rules(policy, verdict, state.remedy.is_some());
            let left = (policy.reasons.most as usize).saturating_sub(reasons.len());
            let possible = score.is_some() && left > 0 && !self.late(walk);
            if possible && wanted(policy, self.ask.explain, verdict) {
                reasons.extend(self.model_reasons(row, left, walk).await);
                // Hundreds of trees take a while: a list of rows must not block the lane's sockets.
                if self.buffers.states.len() > 1 {
                    tokio::task::yield_now().await;
                }
            }
            self.buffers.states[row].reasons = reasons;
        }
    }

    /// Past the deadline, an answer without the model's reasons is better than none.
    fn late(&self, walk: &Walk<S>) -> bool {
        walk.deadline.is_some_and(|deadline| deadline <= self.lane.now())
    }

    async fn model_reasons(&mut self, row: usize, most: usize, walk: &mut Walk<S>) -> Reasons {
        let program = &self.decision.program;
        let variant = &program.variants[self.buffers.states[row].variant];
        let mut reasons = Reasons::new();
        for (&model, &weight) in variant.models.iter().zip(&variant.weights) {
            let Some(explainer) = program.models[model].explain.as_ref().filter(|_| weight != 0.0) else {
                continue;
            };
            if self.late(walk) {
                // Contributions of only some models do not explain the score.
                return Reasons::new();
            }
            let known = contributions(program, &mut self.buffers, model, row)
                || match explainer {
                    Explainer::Ablation(ablation) => self.ablate(ablation, model, row, walk).await.is_some(),
                    _ => false,
                };
            if known {
                add(program, &mut self.buffers.explaining, model, weight, &mut reasons);
            }
        }
        largest(program, &mut reasons, most);
        reasons
    }

    /// `None` if there was no time or no capacity for it.
    async fn ablate(
        &mut self,
        ablation: &Ablation,
        model: usize,
        row: usize,
        walk: &mut Walk<S>,
    ) -> Option<()> {
        let (lane, program, served) = (self.lane, &self.decision.program, &self.decision.models[model]);
        let mut columns = std::mem::take(&mut self.buffers.explaining.rows);
        let mut changed = std::mem::take(&mut self.buffers.explaining.changed);
        columns.clear();
        changed.clear();
        ablation.perturb(&self.buffers.explaining.columns, &mut columns, &mut changed);
        let width = self.buffers.explaining.columns.len().max(1);
        let mut scores = Vec::with_capacity(changed.len());
        for some in columns.chunks(width * served.rows_at_once()) {
            let rows = some.len() / width;
            let demand = Demand { rows, priority: self.ask.priority, deadline: walk.deadline };
            let permit = admit(lane, served, demand).ok()?;
            let mut inputs = lane.spare();
            program.tensors_of(model, some, &mut self.buffers.scratch, &mut inputs);
            // Reasons are not waited for past the deadline.
            let ticket = RunTicket {
                grace: Duration::ZERO,
                ..RunTicket::new(permit, demand.priority, demand.deadline)
            };
            let ran = queue(lane, served, inputs, ticket).await;
            let (ran, _permit) = walk.ran(ran).ok()?;
            program.scores_of(model, &ran.outputs, rows, &mut self.buffers.explaining.scores).ok()?;
            lane.keep(ran.outputs);
            scores.extend_from_slice(&self.buffers.explaining.scores);
        }
        let score = self.buffers.scores.get(row, model);
        let explaining = &mut self.buffers.explaining;
        ablation.contributions(score, &scores, &changed, &mut explaining.contributions);
        (explaining.rows, explaining.changed) = (columns, changed);
        Some(())
    }
}
