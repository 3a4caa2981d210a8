//! Guards, and the policy's verdict: on scores, on rules alone, or as declared.

use crate::decision_walk::DecisionWalk;
use crate::plan::{ModelStep, Plan};
use crate::row_buffers::{Progress, yield_between_rows};
use crate::walk::Walk;
use flyball_core::{Fault, FaultKind, Sink, Stage};
use flyball_decision::{ChosenRoute, Fired, GuardFault, Verdict};

impl<S: Sink> DecisionWalk<'_, S> {
    /// Decides rows that need no model score. Open rows whose fields or features are outside their guards fail.
    pub(crate) async fn policy_before_models(&mut self, plan: &Plan<'_>, walk: &mut Walk<S>) {
        self.evaluate_rules(|route| route == Some(ChosenRoute::Rules));
        for row in 0..self.buffers.states.len() {
            yield_between_rows(row).await;
            let buffers = &mut *self.buffers;
            if buffers.states[row].open()
                && let Err(fault) = self.decision.program.policy.inputs_guarded(&buffers.rows, row)
            {
                buffers.states[row].progress = Progress::Failed(violated(&fault));
            }
        }
        if plan.steps.is_empty() {
            self.evaluate_rules(|_route| true);
            walk.stage(Stage::Policy, ());
        }
    }

    /// Evaluates the policy for open rows after their variant's last model.
    pub(crate) async fn policy(&mut self, step: &ModelStep, rows: &[usize]) {
        if !step.last {
            return;
        }
        let (program, buffers) = (&self.decision.program, &mut *self.buffers);
        for (done, &row) in rows.iter().enumerate() {
            yield_between_rows(done).await;
            if !buffers.states[row].open() {
                continue;
            }
            let score = program.score(step.variant, row, &buffers.scores);
            buffers.states[row].progress = match program.policy.evaluate(&buffers.rows, row, Some(score)) {
                Ok(verdict) => Progress::Decided { verdict, score: Some(score) },
                Err(fault) => Progress::Failed(violated(&fault)),
            };
        }
    }

    /// Gives each open row this declared outcome.
    pub(crate) fn decide_open(&mut self, outcome: usize) {
        for state in self.buffers.states.iter_mut().filter(|state| state.open()) {
            state.progress = Progress::Decided { verdict: declared(outcome), score: None };
        }
    }

    /// Decides open rows of the wanted routes by rules alone.
    fn evaluate_rules(&mut self, wanted: impl Fn(Option<ChosenRoute>) -> bool) {
        let (policy, buffers) = (&self.decision.program.policy, &mut *self.buffers);
        for (row, state) in buffers.states.iter_mut().enumerate().filter(|(_, state)| state.open()) {
            if wanted(buffers.rows.route(row))
                && let Ok(verdict) = policy.evaluate(&buffers.rows, row, None)
            {
                state.progress = Progress::Decided { verdict, score: None };
            }
        }
    }
}

/// A declared outcome, without evaluation.
pub(crate) fn declared(outcome: usize) -> Verdict {
    Verdict { outcome, band: None, fired: Fired::new() }
}

fn violated(fault: &GuardFault) -> Fault {
    let text = format!("{fault}; the decision's guard rejected it");
    Fault::new(FaultKind::GuardViolated, Stage::Policy, text)
}
