//! From rows that were judged or failed to the answer, and to what is counted of it.

use super::case::Case;
use super::work::State;
use crate::walk::Walk;
use flyball_core::{
    Decided, DecidedBy, DecidedRow, DecisionRecord, Decisions, Fault, FaultKind, RowOutcome, Sink, Stage,
};
use flyball_decision::Verdict;
use std::sync::Arc;

impl<S: Sink> Case<'_, S> {
    /// Puts the answer together. Where no row was decided, that is the request's own fault.
    pub(super) fn finish(&mut self, walk: &Walk<S>) -> Result<Decisions, Fault> {
        let hopeless = self.ask.single
            || self.work.lines.iter().all(
                |line| matches!(&line.state, State::Failed(fault) if fault.kind != FaultKind::FieldsInvalid),
            );
        match self.work.lines.first().map(|line| &line.state) {
            Some(State::Failed(fault)) if hopeless => return Err(fault.clone()),
            Some(State::Open) if self.ask.single => return Err(undecided()),
            _ => {}
        }
        Ok(Decisions {
            decision: Arc::clone(&self.decision.name),
            single: self.ask.single,
            rows: (0..self.work.lines.len()).map(|row| self.row(row)).collect(),
            models: self.decided_by(),
            document: self.decision.program.document_digest,
            policy: self.decision.program.policy_digest,
            schema: self.decision.program.schema_digest,
            repeated: false,
            timings: self.ask.timings.then(|| walk.timings()),
        })
    }

    fn row(&self, row: usize) -> DecidedRow {
        let line = &self.work.lines[row];
        let outcome = match &line.state {
            State::Judged { verdict, score } => RowOutcome::Decided(self.decided(row, verdict, *score)),
            State::Failed(fault) if fault.kind == FaultKind::FieldsInvalid => {
                RowOutcome::Invalid(fault.fields.to_vec())
            }
            State::Failed(fault) => failed(fault),
            State::Open => failed(&undecided()),
        };
        DecidedRow { id: self.work.rows.id(row).map(Into::into), outcome }
    }

    fn decided(&self, row: usize, verdict: &Verdict, score: Option<f64>) -> Decided {
        let (program, line) = (&self.decision.program, &self.work.lines[row]);
        let variant = score.map(|_| &program.variants[line.variant]);
        let of = |&model: &usize| (Arc::clone(&program.models[model].name), self.work.scores.get(row, model));
        let several = variant.filter(|variant| variant.models.len() > 1);
        Decided {
            id: line.id,
            outcome: Arc::clone(program.policy.outcome(verdict.outcome)),
            band: verdict.band.map(|band| Arc::clone(program.policy.band(band))),
            score,
            scores: several.iter().flat_map(|variant| &variant.models).map(of).collect(),
            reasons: line.reasons.clone(),
            variant: variant.map(|variant| Arc::clone(&variant.name)),
            remedy: line.remedy,
        }
    }

    /// The models that had a part in it.
    fn decided_by(&self) -> Arc<[DecidedBy]> {
        let lines = self.work.lines.iter();
        let mut variants = lines
            .filter(|line| matches!(line.state, State::Judged { score: Some(_), .. }))
            .map(|line| line.variant);
        let Some(first) = variants.next() else { return Arc::clone(&self.decision.nobody) };
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

    pub(super) fn count(&mut self) {
        for line in &self.work.lines {
            let outcome = match &line.state {
                State::Judged { verdict, .. } => Some(verdict.outcome),
                _ => None,
            };
            let record = DecisionRecord { outcome, remedy: line.remedy };
            self.lane.sink.decided(&self.decision.meter, &record);
        }
        self.places.counted();
    }
}

fn failed(fault: &Fault) -> RowOutcome {
    RowOutcome::Failed { kind: fault.kind, stage: fault.stage, text: fault.text.to_string() }
}

/// A row that was neither judged nor failed: a mistake of ours, and no reason to end the lane.
fn undecided() -> Fault {
    let text = "the row came to no decision, which is a mistake of the server; tell who runs it";
    Fault::new(FaultKind::Panicked, Stage::Policy, text)
}
