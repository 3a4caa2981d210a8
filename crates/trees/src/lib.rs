//! Tree ensembles of ONNX, answered bit for bit as ONNX Runtime answers them.
//!
//! An [`Ensemble`] is built from the plain values of the operator's attributes; anything it cannot answer with
//! the same bits is [`Unsupported`], with the reason. That the bits are the same is for the caller to prove on
//! [`ProbeRows`]. Knows nothing of files, sessions or ONNX Runtime's library.
#![forbid(unsafe_code)]

mod attributes;
mod branch;
mod ensemble;
mod flat;
mod forest;
mod linked;
mod outcome;
mod probe_rows;
mod transform;

pub use attributes::{
    Aggregate, Attributes, Labels, LeafAttributes, Mode, NodeAttributes, Output, Transform,
};
pub use ensemble::{Answers, Ensemble, ROWS_AT_ONCE};
pub use probe_rows::ProbeRows;

/// Why an ensemble is not answered here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

impl Unsupported {
    pub(crate) fn new(reason: impl Into<String>) -> Unsupported {
        Unsupported(reason.into())
    }
}

#[cfg(test)]
mod tests;
