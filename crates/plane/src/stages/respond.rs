//! Assembles the answer from decided and failed rows, and writes it in the transport's dialect.

use crate::Lane;
use crate::decision_walk::DecisionWalk;
use crate::row_buffers::Progress;
use crate::walk::Walk;
use flyball_core::{
    Decided, DecidedBy, DecidedRow, DecisionDialect, DecisionRecord, Decisions, Fault, FaultKind, RowOutcome,
    Sink, Stage,
};
use flyball_decision::Verdict;
use std::sync::Arc;

pub(crate) fn respond<S: Sink, D: DecisionDialect>(
    lane: &Lane<S>,
    dialect: &D,
    decisions: &Decisions,
) -> Result<D::Reply, Fault> {
    lane.write(decisions.size_max(), |out| dialect.answer(decisions, out))
}

impl<S: Sink> DecisionWalk<'_, S> {
    /// Assembles the answer. If no row could be decided, the request fails.
    pub(crate) fn answer(&mut self, walk: &Walk<S>) -> Result<Decisions, Fault> {
        let hopeless = self.ask.single
            || self.buffers.states.iter().all(
                |state| matches!(&state.progress, Progress::Failed(fault) if fault.kind != FaultKind::FieldsInvalid),
            );
        match self.buffers.states.first().map(|state| &state.progress) {
            Some(Progress::Failed(fault)) if hopeless => return Err(fault.clone()),
            Some(Progress::Open) if self.ask.single => return Err(undecided()),
            _ => {}
        }
        Ok(Decisions {
            decision: Arc::clone(&self.decision.name),
            single: self.ask.single,
            rows: (0..self.buffers.states.len()).map(|row| self.row(row)).collect(),
            models: self.decided_by(),
            document: self.decision.program.document_digest,
            policy: self.decision.program.policy_digest,
            schema: self.decision.program.schema_digest,
            repeated: false,
            timings: self.ask.timings.then_some(walk.took),
        })
    }

    fn row(&self, row: usize) -> DecidedRow {
        let state = &self.buffers.states[row];
        let outcome = match &state.progress {
            Progress::Decided { verdict, score } => RowOutcome::Decided(self.decided(row, verdict, *score)),
            Progress::Failed(fault) if fault.kind == FaultKind::FieldsInvalid => {
                RowOutcome::Invalid(fault.fields.to_vec())
            }
            Progress::Failed(fault) => failed(fault),
            Progress::Open => failed(&undecided()),
        };
        DecidedRow { id: self.buffers.rows.id(row).map(Into::into), outcome }
    }

    fn decided(&self, row: usize, verdict: &Verdict, score: Option<f64>) -> Decided {
        let (program, state) = (&self.decision.program, &self.buffers.states[row]);
        let variant = score.map(|_| &program.variants[state.variant]);
        let of =
            |&model: &usize| (Arc::clone(&program.models[model].name), self.buffers.scores.get(row, model));
        let several = variant.filter(|variant| variant.models.len() > 1);
        Decided {
            id: state.id,
            outcome: Arc::clone(program.policy.outcome(verdict.outcome)),
            band: verdict.band.map(|band| Arc::clone(program.policy.band(band))),
            score,
            scores: several.iter().flat_map(|variant| &variant.models).map(of).collect(),
            reasons: state.reasons.clone(),
            variant: variant.map(|variant| Arc::clone(&variant.name)),
            remedy: state.remedy,
        }
    }

    /// The models that took part.
    fn decided_by(&self) -> Arc<[DecidedBy]> {
        let states = self.buffers.states.iter();
        let mut variants = states
            .filter(|state| matches!(state.progress, Progress::Decided { score: Some(_), .. }))
            .map(|state| state.variant);
        // An empty `Arc` of a slice shares a static allocation.
        let Some(first) = variants.next() else { return Arc::default() };
        if variants.clone().all(|variant| variant == first) {
            return Arc::clone(&self.decision.decided_by[first]);
        }
        let variants = variants.chain([first]);
        let took_part = |model: &usize| {
            variants.clone().any(|variant| self.decision.program.variants[variant].models.contains(model))
        };
        let by = &self.decision.by;
        (0..by.len()).filter(took_part).map(|model| by[model].clone()).collect()
    }

    /// Counts every row once.
    pub(crate) fn count(&mut self) {
        for state in &self.buffers.states {
            let outcome = match &state.progress {
                Progress::Decided { verdict, .. } => Some(verdict.outcome),
                _ => None,
            };
            let record = DecisionRecord { outcome, remedy: state.remedy };
            self.lane.sink.decided(&self.decision.meter, &record);
        }
        self.slots.counted = true;
    }
}

fn failed(fault: &Fault) -> RowOutcome {
    RowOutcome::Failed { kind: fault.kind, stage: fault.stage, text: fault.text.to_string() }
}

/// A row that was neither decided nor failed: a bug, but no reason to end the lane.
fn undecided() -> Fault {
    let text = "the row was not decided, which is a bug in the server; report it to its operator";
    Fault::new(FaultKind::Panicked, Stage::Policy, text)
}
