//! A decision, compiled: named fields in, columns for its models, and from their scores an outcome with its reasons.
//!
//! Plain computation. It waits for nothing, reads no file but those that it is given, and knows neither sockets nor
//! ONNX Runtime. The walk (`plane`), `flyball score` and Python's own `decide` all run this program.
#![forbid(unsafe_code)]

mod document;
mod faults;
mod feature;
mod field;
mod names;
mod program;
mod reader;
mod route;
mod rows;
mod scores;
mod slot;
mod value;

pub use document::*;
pub use faults::Faults;
pub use feature::{CompiledReaction, FeatureFrom, FeaturePlan};
pub use field::{Constant, Field};
pub use names::{Name, Names};
pub use program::{ModelFacts, ModelPlan, Program, Remedies, Remedy, Scratch, StageText, Variant};
pub use reader::RowReader;
pub use route::RoutePlan;
pub use rows::{FeatureFact, Origin, Rows};
pub use scores::Scores;
pub use slot::{KeyBuffer, Slot};
pub use value::{Kind, TextRef, Value};
