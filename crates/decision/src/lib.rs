//! A compiled decision: from fields to model columns, and from scores to an outcome with reasons.
//!
//! Pure computation: it never waits, reads only the given files, and knows neither sockets nor ONNX Runtime.
//! The walk (`plane`), `flyball score` and Python's `decide` all run this program.
#![forbid(unsafe_code)]

mod candidate;
mod describe;
mod document;
mod faults;
mod feature;
mod field;
mod model;
mod names;
mod nearest;
mod policy;
mod program;
mod reader;
mod reasons;
mod record;
mod remedy;
mod route;
mod rows;
mod schema;
mod scores;
mod slot;
mod source;
mod tensors;
#[cfg(test)]
mod tests;
mod transform;
mod value;

pub use candidate::CANDIDATE;
pub use describe::StageText;
pub use document::*;
pub use faults::Faults;
pub use feature::{CompiledReaction, FeatureFrom, FeaturePlan};
pub use field::{Constant, Field};
pub use model::{ModelFacts, ModelPlan};
pub use names::{Name, Names};
pub use policy::{
    Computed, EXPRESSION_BYTES_MAX, Expr, ExprFault, Fired, GuardFault, KillSwitch, Policy, Verdict,
};
pub use program::Program;
pub use reader::RowReader;
pub use reasons::{Ablation, AdverseEnd, Explainer, Linear, ReasonTable, Trees, Workspace};
pub use record::RecordPlan;
pub use remedy::{Remedies, Remedy};
pub use route::{RoutePlan, Variant, unit};
pub use rows::{ChosenRoute, FeatureFact, Origin, Rows};
pub use scores::Scores;
pub use slot::{KeyBuffer, Slot};
pub use tensors::row_numbers;
pub use transform::Scratch;
pub use value::{Kind, TextRef, Value};
