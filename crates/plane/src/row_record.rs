//! The facts of a row for the journal's record codec.

use crate::decision_walk::DecisionWalk;
use crate::row_buffers::{Progress, RowState};
use crate::walk::Walk;
use flyball_core::{DecidedBy, Digest, JournalRecord, Remedy, RowsOptions, Sink};
use flyball_decision::{Field, Program, Rows, Scores, Value};
use flyball_journal::record_codec::{
    self, DecidedFacts, DecisionFacts, FeatureValue, Preamble, RecordValue, RecordedField, RequestFacts,
    RowFacts, RowOutcome, RowValues,
};

/// The constant part of a decision's records. `by` has the models of each variant.
pub(crate) fn preamble(name: &str, program: &Program, by: &[&[DecidedBy]], runtime: Digest) -> Preamble {
    let record = &program.record;
    let fields = program.fields().iter().enumerate().filter(|(index, _)| !record.masked(*index));
    let features = program.features.iter().enumerate().filter(|(index, _)| !record.masked_feature(*index));
    Preamble::new(&DecisionFacts {
        name,
        document: program.document_digest,
        policy: program.policy_digest,
        schema: program.schema_digest,
        runtime,
        variants: by,
        models: program.models.iter().map(|model| &*model.name).collect(),
        masked: record.masks().map(|field| &*program.fields()[field].name).collect(),
        fields: fields
            .map(|(index, field)| RecordedField { index, name: &field.name, personal: field.pii })
            .collect(),
        features: features
            .map(|(index, feature)| RecordedField {
                index,
                name: &feature.name,
                personal: feature.field().pii,
            })
            .collect(),
    })
}

impl<'a, S: Sink> DecisionWalk<'a, S> {
    pub(crate) fn request_facts<'w>(&self, walk: &'w Walk<S>) -> RequestFacts<'w>
    where
        'a: 'w,
    {
        let ask: &'a RowsOptions = self.ask;
        RequestFacts {
            at_ns: self.lane.plane.services.wall.now_ns(),
            mono: self.lane.now(),
            protocol: walk.protocol.label(),
            caller: walk.caller_name().map(|name| &**name),
            key: ask.idempotency_key.as_deref(),
            trace: walk.trace(),
            single: ask.single,
            explain: ask.explain,
            timings: walk.took,
        }
    }

    /// Writes a row's record if it was decided or failed.
    pub(crate) fn write_record(&self, row: usize, request: &RequestFacts<'_>, entry: &mut JournalRecord) {
        let (program, buffers) = (&self.decision.program, &*self.buffers);
        let state = &buffers.states[row];
        let outcome = match &state.progress {
            Progress::Open => return,
            Progress::Failed(fault) => RowOutcome::Failed(fault),
            Progress::Decided { verdict, score } => RowOutcome::Decided(DecidedFacts {
                variant: score.map(|_| (state.variant, &*program.variants[state.variant].name)),
                route: route(program, state, *score),
                runs: &buffers.runs,
                row,
                score: *score,
                outcome: program.policy.outcome(verdict.outcome),
                band: verdict.band.map(|band| &**program.policy.band(band)),
                rules: &verdict.fired,
                reasons: &state.reasons,
                remedy: state.remedy,
            }),
        };
        let values = RowView { program, rows: &buffers.rows, scores: &buffers.scores, row };
        let facts = RowFacts { id: state.id, values, whole: program.record.whole(state.id), outcome };
        record_codec::row(&self.decision.preamble, request, &facts, entry);
    }
}

/// How a row was decided.
fn route(program: &Program, state: &RowState, score: Option<f64>) -> &'static str {
    match (state.remedy.map(|remedied| remedied.remedy), score) {
        (Some(Remedy::Previous), Some(_)) => "fallback",
        (Some(Remedy::Outcome), None) => "declared",
        (_, Some(_)) if state.variant == 0 => "champion",
        (_, Some(_)) => "split",
        (None | Some(Remedy::Retry), None) if program.policy.kill_switch().is_some() => "kill_switch",
        (_, None) => "rules",
    }
}

/// A row's values in the request's buffers.
struct RowView<'a> {
    program: &'a Program,
    rows: &'a Rows,
    scores: &'a Scores,
    row: usize,
}

impl<'a> RowView<'a> {
    fn value(&self, field: &'a Field, value: Value) -> RecordValue<'a> {
        match value {
            Value::Missing => RecordValue::Missing,
            Value::Bool(value) => RecordValue::Bool(value),
            Value::Int(value) => RecordValue::Int(value),
            Value::Float(value) => RecordValue::Float(value),
            Value::Text(text) => RecordValue::Text(self.rows.text(text)),
            Value::Category(index) => {
                field.values.get(index as usize).map_or(RecordValue::Missing, |text| RecordValue::Text(text))
            }
            Value::Time(nanos) => RecordValue::Time(nanos),
        }
    }
}

impl RowValues for RowView<'_> {
    fn field(&self, field: usize) -> RecordValue<'_> {
        self.value(&self.program.fields()[field], self.rows.value(self.row, field))
    }

    fn feature(&self, feature: usize) -> FeatureValue<'_> {
        let (plan, fact) = (&self.program.features[feature], self.rows.fact(self.row, feature));
        let value = self.value(plan.field(), self.rows.value(self.row, plan.slot));
        FeatureValue { value, origin: fact.origin.label(), age_ms: fact.age_ms }
    }

    fn score(&self, model: usize) -> f64 {
        self.scores.get(self.row, model)
    }

    fn id(&self) -> Option<&str> {
        self.rows.id(self.row)
    }

    fn subject(&self, out: &mut Vec<u8>) {
        self.program.record.subject(self.rows, self.row, out);
    }
}
