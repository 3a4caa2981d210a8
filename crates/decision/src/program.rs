//! A decision, compiled. What it must not know: how features are fetched, how models are run, who asks.

use crate::document::{DecisionDocument, IdempotencyDocument, RemedyDocument, SourceDocument};
use crate::feature::{CompiledReaction, FeaturePlan};
use crate::field::Field;
use crate::reader::RowReader;
use crate::route::RoutePlan;
use crate::rows::{FeatureFact, Origin, Rows};
use crate::scores::Scores;
use crate::value::Value;
use flyball_core::snapshot::SnapshotFaults;
use flyball_core::{Digest, Fault, FaultKind, Scalar, Stage, Tensor, TensorSpec};
use std::sync::Arc;

/// What is known of a model of the deployment: its signature, and the file that explains it.
#[derive(Clone, Copy, Debug)]
pub struct ModelFacts<'a> {
    pub version: &'a str,
    pub inputs: &'a [TensorSpec],
    pub outputs: &'a [TensorSpec],
    pub explain: Option<&'a [u8]>,
}

#[derive(Clone, Debug)]
pub struct ModelPlan {
    pub name: Arc<str>,
    pub version: Arc<str>,
    /// The names of its columns, of all inputs one after the other.
    pub columns: Vec<String>,
    /// The field or feature that each column comes from.
    pub sources: Vec<Arc<str>>,
}

#[derive(Clone, Debug)]
pub struct Variant {
    pub name: Arc<str>,
    /// In the order in which they run.
    pub models: Vec<usize>,
    /// Of each of them; 0: its score is only a column of others.
    pub weights: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    Reject,
    Shed,
    Retry,
    Rules,
    Previous,
    /// The policy's outcome of that number.
    Outcome(usize),
}

/// What is done instead of failing, for each kind of failure.
#[derive(Clone, Copy, Debug)]
pub struct Remedies {
    pub model_unavailable: Remedy,
    pub timeout: Remedy,
    pub queue_full: Remedy,
    pub feature_error: Remedy,
    pub invalid_input: Remedy,
    pub guard_violated: Remedy,
    pub record_error: Remedy,
}

/// The lines of `flyball plan` for one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageText {
    pub stage: &'static str,
    pub lines: Vec<String>,
}

/// The memory that columns are computed in.
#[derive(Debug, Default)]
pub struct Scratch {}

#[derive(Clone, Debug)]
pub struct Program {
    pub features: Vec<FeaturePlan>,
    pub sources: Vec<(Arc<str>, SourceDocument)>,
    /// The slot of the field that says when the event happened.
    pub event_time: Option<usize>,
    pub models: Vec<ModelPlan>,
    /// The first is the champion.
    pub variants: Vec<Variant>,
    pub route: RoutePlan,
    pub remedies: Remedies,
    pub idempotency: IdempotencyDocument,
    pub policy_digest: Digest,
    pub schema_digest: Digest,
    pub(crate) fields: Vec<Field>,
}

impl Program {
    /// The program, or everything that is wrong with the document.
    pub fn compile(
        _document: &DecisionDocument,
        _models: &[ModelFacts<'_>],
    ) -> Result<Program, SnapshotFaults> {
        Err(SnapshotFaults(Vec::new()))
    }

    /// Empties `rows` for a request of this decision.
    pub fn begin(&self, rows: &mut Rows) {
        rows.begin(self.fields.len(), self.features.len());
    }

    /// Takes the rows of a request.
    pub fn reader<'r>(&'r self, rows: &'r mut Rows) -> RowReader<'r> {
        RowReader::new(self, rows, false)
    }

    /// The same for files that bring features along, under their names.
    pub fn reader_of_features<'r>(&'r self, rows: &'r mut Rows) -> RowReader<'r> {
        RowReader::new(self, rows, true)
    }

    /// Milliseconds since 1970 at which the row's event happened, where it says so.
    pub fn event_ms(&self, rows: &Rows, row: usize) -> Option<i64> {
        match rows.value(row, self.event_time?) {
            Value::Time(nanos) => Some(nanos.div_euclid(1_000_000)),
            _ => None,
        }
    }

    /// Sets a feature's value, as its type holds it. False: it does not fit (nor does null), and nothing is set.
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

    /// Does what was declared for a feature that is not there as it should be. False: that is a fault.
    pub fn react(&self, rows: &mut Rows, row: usize, feature: usize, reaction: &CompiledReaction) -> bool {
        let (value, origin) = match reaction {
            CompiledReaction::Missing | CompiledReaction::UseStale => (Value::Missing, Origin::None),
            CompiledReaction::Value(constant) => (constant.place(rows), Origin::Declared),
            CompiledReaction::Fault => return false,
        };
        rows.set_feature(row, feature, value, FeatureFact { origin, age_ms: None });
        true
    }

    /// Computes a feature that is an expression. False: it cannot be told, and that is declared a fault.
    pub fn compute(&self, _rows: &mut Rows, _row: usize, _feature: usize) -> bool {
        true
    }

    /// The inputs of a model for the rows `which`, in that order.
    pub fn tensors(
        &self,
        _model: usize,
        _rows: &Rows,
        _which: &[usize],
        _scores: &Scores,
        _scratch: &mut Scratch,
        out: &mut Vec<Tensor>,
    ) {
        out.clear();
    }

    /// Takes a model's answer: its score for each of the rows `which`.
    pub fn scores(
        &self,
        _model: usize,
        _outputs: &[Tensor],
        _which: &[usize],
        _into: &mut Scores,
    ) -> Result<(), Fault> {
        Err(Fault::new(FaultKind::RunFailed, Stage::Infer, "the model gives no such output"))
    }

    /// Empties `scores` for the rows of a request.
    pub fn begin_scores(&self, rows: &Rows, scores: &mut Scores) {
        scores.begin(rows.len(), self.models.len());
    }

    /// The score of a variant: its models' scores, each times its weight, added in the order in which they run.
    pub fn score(&self, variant: usize, row: usize, scores: &Scores) -> f64 {
        let variant = &self.variants[variant];
        let weighted = variant.models.iter().zip(&variant.weights).filter(|&(_, &weight)| weight != 0.0);
        weighted.fold(0.0, |sum, (&model, weight)| sum + weight * scores.get(row, model))
    }

    /// The compiled stages, for `flyball plan`.
    pub fn describe(&self) -> Vec<StageText> {
        Vec::new()
    }
}

impl Remedy {
    #[allow(dead_code)]
    fn compile(document: &RemedyDocument) -> Option<Remedy> {
        match document {
            RemedyDocument::Reject => Some(Remedy::Reject),
            _ => None,
        }
    }
}
