//! Offering decisions to whoever keeps them, and what is done where that one does not.

use super::case::{Case, declared};
use super::remedy::{remedied, shed};
use super::work::State;
use crate::stages::reasons::of_rules;
use crate::walk::Walk;
use flyball_core::{Decisions, Fault, FaultKind, Sink, Stage};
use flyball_decision::Remedy;

impl<S: Sink> Case<'_, S> {
    /// The decisions as they were recorded, or as the remedy leaves them.
    pub(super) fn record(&mut self, decisions: Decisions, walk: &Walk<S>) -> Result<Decisions, Fault> {
        let Some(recorder) = &self.lane.plane.means.recorder else { return Ok(decisions) };
        let Err(why) = recorder.offer(&decisions) else { return Ok(decisions) };
        let text = format!("the decision could not be recorded: {why}; try again");
        let fault = Fault::new(FaultKind::RecordFailed, Stage::Record, text);
        let remedy = self.decision.program.remedies.record_error;
        if remedy == Remedy::Retry && recorder.offer(&decisions).is_err() {
            return self.unrecorded(Remedy::Reject, &fault, walk);
        }
        self.unrecorded(remedy, &fault, walk)
    }

    fn unrecorded(&mut self, remedy: Remedy, fault: &Fault, walk: &Walk<S>) -> Result<Decisions, Fault> {
        let (policy, work) = (&self.decision.program.policy, &mut *self.work);
        let judged = |(_, line): &(usize, &mut super::work::Line)| matches!(line.state, State::Judged { .. });
        for (row, line) in work.lines.iter_mut().enumerate().filter(judged) {
            let rules = || policy.judge(&work.rows, row, None).ok();
            let verdict = match remedy {
                Remedy::Retry => None,
                Remedy::Rules => rules(),
                Remedy::Outcome(outcome) => Some(declared(outcome)),
                Remedy::Reject | Remedy::Previous => {
                    line.state = State::Failed(fault.clone());
                    None
                }
                Remedy::Shed => {
                    line.state = State::Failed(shed(fault.clone()));
                    None
                }
            };
            if let Some(verdict) = verdict {
                // Those of what could not be recorded say nothing of this one.
                line.reasons = of_rules(policy, &verdict, true);
                line.state = State::Judged { verdict, score: None };
            }
            line.remedy = remedied(fault, remedy).or(line.remedy);
        }
        self.finish(walk)
    }
}
