//! A decision that serves: its program, models and feature sources.

mod backfill;
mod compile;

use crate::Model;
use crate::idempotency::Answers;
use crate::plan::ModelStep;
use flyball_core::DecidedBy;
use flyball_decision::{FieldDocument, Program, Variant};
use flyball_features::{Source, Window};
use flyball_journal::record_codec::Preamble;
use std::sync::Arc;
use std::time::Duration;

pub use backfill::{Backfill, BackfillFault, Filled};
pub use compile::{CANDIDATE_KIND_MISMATCH, DecisionContext, compile_decision};

/// A decision that serves. `M` is its meter.
pub struct Decision<M> {
    pub name: Arc<str>,
    pub program: Program,
    pub(crate) meter: Arc<M>,
    /// For requests without a deadline of their own.
    pub(crate) deadline: Option<Duration>,
    /// By index in the program.
    pub(crate) models: Vec<Arc<Model<M>>>,
    /// The model steps of its plans.
    pub(crate) steps: Vec<ModelStep>,
    pub by: Vec<DecidedBy>,
    /// The input fields, and the possible outcomes from mild to severe.
    pub input: Vec<FieldDocument>,
    pub outcomes: Vec<Arc<str>>,
    /// By variant, the models that decide.
    pub(crate) decided_by: Vec<Arc<[DecidedBy]>>,
    /// By index in the program.
    pub(crate) sources: Vec<Source>,
    /// By feature; none if it is not a window.
    pub(crate) windows: Vec<Option<Window>>,
    /// The constant part of its records.
    pub(crate) preamble: Preamble,
    /// Survive reloads.
    pub(crate) answers: Arc<Answers>,
}

impl<M> Decision<M> {
    pub(crate) fn variant_models(&self, variant: &Variant) -> impl Iterator<Item = &Arc<Model<M>>> {
        variant.models.iter().map(|&model| &self.models[model])
    }

    /// The champion's first model; none if rules alone decide.
    pub(crate) fn first_model(&self) -> Option<&Arc<Model<M>>> {
        self.variant_models(&self.program.variants[0]).next()
    }
}
