//! The features of a decision: where each comes from, and what becomes of one that is not there as it should be.
//! Asking stores and windows is the walk's; here are the definitions and what a value must be.

use crate::document::WindowOp;
use crate::field::{Constant, Field};
use crate::slot::Slot;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct FeaturePlan {
    pub name: Arc<str>,
    pub slot: usize,
    pub from: FeatureFrom,
    pub max_age_ms: Option<u64>,
    pub on_missing: CompiledReaction,
    pub on_stale: CompiledReaction,
    pub on_error: CompiledReaction,
    pub(crate) field: Field,
}

#[derive(Clone, Debug)]
pub enum FeatureFrom {
    /// `of` is read as a number for `sum` and `mean`, as a text for `distinct`.
    Window {
        op: WindowOp,
        of: Option<Slot>,
        by: Slot,
        last_ms: u64,
        current: bool,
        source: Option<usize>,
    },
    Lookup {
        source: usize,
        key: Slot,
        field: Arc<str>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum CompiledReaction {
    Missing,
    /// What is known of it; where nothing is known it is missing.
    UseStale,
    Fault,
    Value(Constant),
}
