//! The plan of one attempt, as data: which models run, in which order, for which rows, and by when.
//!
//! A cascade or an ensemble is another plan; the walk stays the same.

use crate::decision_walk::DecisionWalk;
use crate::remedies::{first_deadline, remedied, remedy, shed};
use crate::row_buffers::Progress;
use crate::stages::policy::declared;
use crate::walk::Walk;
use flyball_core::{Nanos, Sink};
use flyball_decision::{Program, Remedy};

/// One model, run for the rows of one variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelStep {
    pub(crate) variant: usize,
    /// Its index in the program.
    pub(crate) model: usize,
    /// Whether it is its variant's first.
    pub(crate) first: bool,
    /// Whether it is its variant's last: the policy evaluates the rows after it.
    pub(crate) last: bool,
}

/// One attempt to decide the open rows.
pub(crate) struct Plan<'d> {
    /// Empty if rules alone decide.
    pub(crate) steps: &'d [ModelStep],
    /// The deadline of the model runs.
    pub(crate) deadline: Option<Nanos>,
    pub(crate) attempt: Attempt,
    /// The kill switch: every row gets this outcome, and nothing runs.
    pub(crate) outcome: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    First,
    /// For failed rows whose remedy runs them again.
    Second,
}

/// Every model of every variant, in document order.
pub(crate) fn steps(program: &Program) -> Vec<ModelStep> {
    let variants = program.variants.iter().enumerate();
    let steps = variants.flat_map(|(variant, of)| {
        let last = of.models.len().saturating_sub(1);
        let step =
            move |(place, &model)| ModelStep { variant, model, first: place == 0, last: place == last };
        of.models.iter().enumerate().map(step)
    });
    steps.collect()
}

impl<'a, S: Sink> DecisionWalk<'a, S> {
    pub(crate) fn first_plan(&self, walk: &Walk<S>) -> Plan<'a> {
        let deadline = first_deadline(&self.decision.program.remedies, walk.deadline, self.lane.now());
        self.plan(Attempt::First, deadline)
    }

    /// Applies the remedy of each failed row. None if no row is to run again.
    pub(crate) fn second_plan(&mut self, walk: &Walk<S>) -> Option<Plan<'a>> {
        if !self.apply_remedies() {
            return None;
        }
        self.reserve_slots_again();
        Some(self.plan(Attempt::Second, walk.deadline))
    }

    fn plan(&self, attempt: Attempt, deadline: Option<Nanos>) -> Plan<'a> {
        let decision = self.decision;
        let outcome = decision.program.policy.kill_switch().map(|killed| killed.outcome);
        Plan { steps: &decision.steps, deadline, attempt, outcome }
    }

    /// True if some rows are open again.
    fn apply_remedies(&mut self) -> bool {
        let program = &self.decision.program;
        let mut again = false;
        for row in 0..self.buffers.states.len() {
            let buffers = &mut *self.buffers;
            let Progress::Failed(fault) = &buffers.states[row].progress else { continue };
            let remedy = remedy(&program.remedies, fault.kind);
            let remedied = remedied(fault, remedy);
            let progress = match (remedy, program.route.fallback) {
                (Remedy::Error, _) | (Remedy::Previous, None) => continue,
                (Remedy::Shed, _) => Progress::Failed(shed(fault.clone())),
                (Remedy::Rules, _) => match program.policy.evaluate(&buffers.rows, row, None) {
                    Ok(verdict) => Progress::Decided { verdict, score: None },
                    Err(_) => continue,
                },
                (Remedy::Outcome(outcome), _) => {
                    Progress::Decided { verdict: declared(outcome), score: None }
                }
                (Remedy::Retry, _) => Progress::Open,
                (Remedy::Previous, Some(fallback)) => {
                    buffers.states[row].variant = fallback;
                    Progress::Open
                }
            };
            let state = &mut buffers.states[row];
            (state.progress, state.remedy) = (progress, remedied);
            again |= state.open();
        }
        again
    }
}
