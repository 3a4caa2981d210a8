//! A decision, compiled: named fields in, columns for its models, and from their scores an outcome with its reasons.
//!
//! Plain computation. It waits for nothing, reads no file but those that it is given, and knows neither sockets nor
//! ONNX Runtime. The walk (`plane`), `flyball score` and Python's own `decide` all run this program.
#![forbid(unsafe_code)]

mod document;
mod faults;
mod names;
mod nearest;
mod policy;
mod rows;
mod value;

pub use document::*;
pub use faults::Faults;
pub use names::{Name, Names};
pub use policy::{
    Computed, EXPRESSION_BYTES_MAX, Expr, ExprFault, Fired, GuardFault, KillSwitch, Policy, Verdict,
};
pub use rows::{FeatureFact, Origin, Rows};
pub use value::{Kind, TextRef, Value};
