//! A compiled decision, with one method for each need of the walk.
//!
//! Must not know how features are fetched, how models run, or who calls.

use crate::document::{DecisionDocument, Expose, IdempotencyDocument, SourceDocument, TransformDocument};
use crate::faults::Faults;
use crate::feature::{self, CompiledReaction, FeatureFrom, FeaturePlan};
use crate::field::{Field, TextMap};
use crate::model::{ModelFacts, ModelPlan, Models};
use crate::names::Names;
use crate::policy::{Computed, Policy};
use crate::reader::RowReader;
use crate::reasons::AdverseEnd;
use crate::record::RecordPlan;
use crate::remedy::Remedies;
use crate::route::{self, RoutePlan, Variant};
use crate::rows::{FeatureFact, Origin, Rows};
use crate::schema::{self, Scope, VALUES_MAX};
use crate::scores::Scores;
use crate::source;
use crate::tensors::{self, Source};
use crate::transform::{Scratch, Transforms};
use crate::value::{Kind, Value};
use flyball_core::snapshot::SnapshotFaults;
use flyball_core::{Digest, Fault, Scalar, Tensor};
use std::ops::RangeInclusive;
use std::sync::Arc;

const WORDS_MAX: usize = 1024;
/// Up to a week.
const WINDOW_S: RangeInclusive<u32> = 1..=604_800;
const ANSWERS: RangeInclusive<u32> = 1..=10_000_000;

#[derive(Debug)]
pub struct Program {
    pub features: Vec<FeaturePlan>,
    pub sources: Vec<(Arc<str>, SourceDocument)>,
    /// The slot of the field with the event's time.
    pub event_time: Option<usize>,
    pub models: Vec<ModelPlan>,
    /// The first is the champion.
    pub variants: Vec<Variant>,
    pub route: RoutePlan,
    pub policy: Policy,
    /// The end of the score with the adverse outcomes.
    pub adverse_end: AdverseEnd,
    pub remedies: Remedies,
    pub idempotency: IdempotencyDocument,
    pub record: RecordPlan,
    pub expose: Option<Expose>,
    /// Of the whole document, including transforms, columns, weights, routes and remedies.
    pub document_digest: Digest,
    pub policy_digest: Digest,
    pub schema_digest: Digest,
    pub(crate) fields: Vec<Field>,
    /// The index of each name: fields first, then features.
    pub(crate) places: TextMap<u16>,
    pub(crate) transforms: Transforms,
    pub(crate) owner: String,
    pub(crate) purpose: String,
}

impl Program {
    /// Compiles a document, or returns all of its faults.
    pub fn compile(
        document: &DecisionDocument,
        models: &[ModelFacts<'_>],
    ) -> Result<Program, SnapshotFaults> {
        let mut faults = Faults::default();
        let program = compile(document, models, &mut faults);
        match program {
            Some(program) if faults.0.is_empty() => Ok(program),
            _ => Err(SnapshotFaults(faults.0)),
        }
    }

    /// Clears `rows` for a request of this decision.
    pub fn begin(&self, rows: &mut Rows) {
        rows.begin(self.fields.len(), self.features.len());
    }

    /// Reads the rows of a request.
    pub fn reader<'r>(&'r self, rows: &'r mut Rows) -> RowReader<'r> {
        RowReader::new(self, rows, false)
    }

    /// Reads the rows of a file that may contain features, by name.
    pub fn reader_of_features<'r>(&'r self, rows: &'r mut Rows) -> RowReader<'r> {
        RowReader::new(self, rows, true)
    }

    /// Whether models score its rows; without a model the rules alone decide.
    pub fn scored(&self) -> bool {
        !self.models.is_empty()
    }

    /// The fields in the order of their slots.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The row's event time in milliseconds since 1970, if it has one.
    pub fn event_ms(&self, rows: &Rows, row: usize) -> Option<i64> {
        match rows.value(row, self.event_time?) {
            Value::Time(nanos) => Some(nanos.div_euclid(1_000_000)),
            _ => None,
        }
    }

    /// Sets a feature's value. False: the value does not fit (nor does null), and nothing is set.
    pub fn put(
        &self,
        rows: &mut Rows,
        row: usize,
        feature: usize,
        value: Scalar<'_>,
        fact: FeatureFact,
    ) -> bool {
        let Some(value) = self.features[feature].field.take(value, rows) else { return false };
        rows.set_feature(row, feature, value, fact);
        true
    }

    /// Applies the declared reaction to a missing or stale feature. False: the reaction is a fault.
    pub fn react(&self, rows: &mut Rows, row: usize, feature: usize, reaction: &CompiledReaction) -> bool {
        let (value, origin) = match reaction {
            CompiledReaction::Missing | CompiledReaction::UseStale => (Value::Missing, Origin::None),
            CompiledReaction::Value(constant) => (constant.place(rows), Origin::Declared),
            CompiledReaction::Fault => return false,
        };
        rows.set_feature(row, feature, value, FeatureFact { origin, age_ms: None });
        true
    }

    /// Computes an expression feature. False: undefined or unfitting, and the declared reaction is a fault.
    pub fn compute(&self, rows: &mut Rows, row: usize, feature: usize) -> bool {
        let plan = &self.features[feature];
        let FeatureFrom::Compute(expr) = &plan.from else { return false };
        let fact = FeatureFact { origin: Origin::Computed, age_ms: None };
        let fits = match expr.value(rows, row) {
            Computed::Missing => return self.react(rows, row, feature, &plan.on_missing),
            // A text of the row is referenced, not copied.
            Computed::Text(text) if plan.field.kind == Kind::Text => {
                let fits = rows.text(text).len() <= plan.field.length_max;
                fits.then(|| rows.set_feature(row, feature, Value::Text(text), fact)).is_some()
            }
            Computed::Text(text) => {
                let place = plan.field.place_of(rows.text(text));
                place.map(|place| rows.set_feature(row, feature, Value::Category(place), fact)).is_some()
            }
            Computed::Time(nanos) => {
                rows.set_feature(row, feature, Value::Time(nanos), fact);
                true
            }
            Computed::Bool(value) => self.put(rows, row, feature, Scalar::Bool(value), fact),
            Computed::Int(value) => self.put(rows, row, feature, Scalar::Int(value), fact),
            Computed::Float(value) => self.put(rows, row, feature, Scalar::Float(value), fact),
            Computed::Literal(text) => self.put(rows, row, feature, Scalar::Text(text), fact),
        };
        fits || self.react(rows, row, feature, &plan.on_error)
    }

    /// The inputs of a model for the rows `which`, in that order.
    #[expect(clippy::too_many_arguments, reason = "each is a separate part of the walk's memory")]
    pub fn tensors(
        &self,
        model: usize,
        rows: &Rows,
        which: &[usize],
        scores: &Scores,
        scratch: &mut Scratch,
        out: &mut Vec<Tensor>,
    ) {
        let source = Source { transforms: &self.transforms, rows, scores };
        source.tensors(&self.models[model], which, scratch, out);
    }

    /// One row's columns as the model sees them, for its explainer; NaN for texts.
    #[expect(clippy::too_many_arguments, reason = "each is a separate part of the walk's memory")]
    pub fn columns(
        &self,
        model: usize,
        rows: &Rows,
        row: usize,
        scores: &Scores,
        scratch: &mut Scratch,
        out: &mut Vec<f64>,
    ) {
        let source = Source { transforms: &self.transforms, rows, scores };
        source.columns(&self.models[model], row, scratch, out);
    }

    /// The inputs of a model for given columns, row after row, as ablation changes them.
    pub fn tensors_of(&self, model: usize, columns: &[f64], scratch: &mut Scratch, out: &mut Vec<Tensor>) {
        tensors::tensors_of(&self.models[model], columns, scratch, out);
    }

    /// Stores a model's score for each of the rows `which`.
    pub fn scores(
        &self,
        model: usize,
        outputs: &[Tensor],
        which: &[usize],
        into: &mut Scores,
    ) -> Result<(), Fault> {
        let take = |place: usize, score| into.set(which[place], model, score);
        tensors::read_scores(&self.models[model], outputs, which.len(), take)
    }

    /// Reads scores of rows outside the request, as ablation makes them.
    pub fn scores_of(
        &self,
        model: usize,
        outputs: &[Tensor],
        rows: usize,
        out: &mut Vec<f64>,
    ) -> Result<(), Fault> {
        out.clear();
        tensors::read_scores(&self.models[model], outputs, rows, |_, score| out.push(score))
    }

    /// Clears `scores` for the rows of a request.
    pub fn begin_scores(&self, rows: &Rows, scores: &mut Scores) {
        scores.begin(rows.len(), self.models.len());
    }

    /// A variant's score: the weighted sum of its models' scores, in run order.
    pub fn score(&self, variant: usize, row: usize, scores: &Scores) -> f64 {
        let variant = &self.variants[variant];
        let weighted = variant.models.iter().zip(&variant.weights).filter(|&(_, &weight)| weight != 0.0);
        weighted.fold(0.0, |sum, (&model, weight)| sum + weight * scores.get(row, model))
    }
}

fn compile(document: &DecisionDocument, facts: &[ModelFacts<'_>], faults: &mut Faults) -> Option<Program> {
    words(document, faults);
    let sources = source::sources(&document.sources, faults);
    let mut scope = Scope { faults, names: Names::default(), values_left: VALUES_MAX };
    let fields = schema::fields(&document.input, &mut scope);
    let features = feature::features(&document.features, &fields, &sources, &mut scope);
    let event_time = document.event_time.as_ref();
    let event_time = event_time.and_then(|name| scope.slot("event_time", name, &fields, &[Kind::Time]));
    let before = scope.faults.0.len();
    let transforms = Transforms::compile(&document.transforms, &fields, &features, scope.faults);
    let sound = scope.faults.0.len() == before && features.len() == document.features.len();
    let models = Models { document, facts, transforms: &transforms, sound }.compile(scope.faults);
    let known: Vec<_> = document.models.iter().map(|model| model.name.as_str()).collect();
    let variants = route::variants(&document.variants, &models, &known, scope.faults);
    let route = route::route(&document.route, &variants, &fields, &mut scope);
    let Scope { faults, mut names, .. } = scope;
    for transform in &document.transforms {
        if let TransformDocument::Cross { into, .. } = transform {
            names.add_crossed(into);
        }
    }
    names.unscored = document.models.is_empty();
    if names.unscored && document.policy.rules.is_empty() && document.policy.kill_switch.is_none() {
        faults.tell(
            "policy.rules",
            "a decision without a model decides by its rules; write one, or add a model",
        );
    }
    let policy = Policy::compile(&document.policy, &names, faults);
    let previous = document.route.fallback.is_some();
    let remedies = Remedies::compile(&document.remedies, &document.policy.outcomes, previous, faults);
    idempotency(&document.idempotency, faults);
    let record = RecordPlan::compile(document, &fields, &features, faults);
    let names = fields.iter().map(|field| &field.name).chain(features.iter().map(|feature| &feature.name));
    let places = names.enumerate().map(|(place, name)| (Box::from(&**name), place as u16)).collect();
    let digests = document.digests();
    Some(Program {
        event_time: event_time.map(|slot| slot.slot),
        adverse_end: AdverseEnd::of(&document.policy),
        document_digest: digests.document,
        policy_digest: digests.policy,
        schema_digest: digests.schema,
        idempotency: document.idempotency,
        owner: document.owner.clone(),
        purpose: document.purpose.clone(),
        policy: policy?,
        features,
        sources,
        models,
        variants,
        route,
        remedies,
        record,
        expose: document.expose,
        fields,
        places,
        transforms,
    })
}

fn words(document: &DecisionDocument, faults: &mut Faults) {
    for (path, text) in [("owner", &document.owner), ("purpose", &document.purpose)] {
        if text.trim().is_empty() || text.len() > WORDS_MAX {
            faults.add(path, text.as_str(), format!("a text of 1 to {WORDS_MAX} bytes"));
        }
    }
}

fn idempotency(document: &IdempotencyDocument, faults: &mut Faults) {
    let keys = [("window_s", document.window_s, WINDOW_S), ("entries_max", document.entries_max, ANSWERS)];
    for (key, is, allowed) in keys {
        if !allowed.contains(&is) {
            let allowed = format!("{} to {}", allowed.start(), allowed.end());
            faults.add(format!("idempotency.{key}"), is, allowed);
        }
    }
}
