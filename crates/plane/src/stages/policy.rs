//! Guards, and the policy's verdict on rows that have their scores.

use crate::Decision;
use crate::governed::work::{State, Work, set_idle_policy};
use flyball_core::{Fault, FaultKind, Stage};
use flyball_decision::GuardFault;

/// Open rows whose fields and features are outside their guards fail.
pub(crate) async fn guard<M>(decision: &Decision<M>, work: &mut Work) {
    for row in 0..work.lines.len() {
        set_idle_policy(row).await;
        if work.lines[row].open()
            && let Err(fault) = decision.program.policy.inputs_guarded(&work.rows, row)
        {
            work.lines[row].state = State::Failed(violated(&fault));
        }
    }
}

/// Judges rows by the scores of their variants.
pub(crate) async fn judge<M>(decision: &Decision<M>, work: &mut Work, which: &[usize]) {
    let program = &decision.program;
    for (done, &row) in which.iter().enumerate() {
        set_idle_policy(done).await;
        let score = program.score(work.lines[row].variant, row, &work.scores);
        work.lines[row].state = match program.policy.evaluate(&work.rows, row, Some(score)) {
            Ok(verdict) => State::Judged { verdict, score: Some(score) },
            Err(fault) => State::Failed(violated(&fault)),
        };
    }
}

fn violated(fault: &GuardFault) -> Fault {
    let text = format!("{fault}; the decision's guard let nothing through");
    Fault::new(FaultKind::GuardViolated, Stage::Policy, text)
}
