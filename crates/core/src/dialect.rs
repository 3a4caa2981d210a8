//! The seam between the walk and the protocols: a request in neutral form, an answer in neutral form, and the trait
//! by which each protocol turns bytes into the one and the other into its reply.
//!
//! The walk is written once against `Dialect`; what is particular to JSON or protobuf lives in the `wire` crate.

use crate::{Fault, RequestLimits, Tensor};
use bytes::Bytes;

/// A model as a caller names it. Without a version, the deployment's route decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRef {
    pub name: String,
    pub version: Option<String>,
}

/// How a request came in; a bounded metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    pub const ALL: [Protocol; 2] = [Protocol::Http, Protocol::Grpc];

    pub const fn label(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
        }
    }

    pub const fn index(self) -> usize {
        self as usize
    }
}

/// One output that the caller asked for, and whether as raw bytes (where the protocol leaves the choice).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedOutput {
    pub name: String,
    pub binary: Option<bool>,
}

/// A parsed inference request, free of its protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct InferRequest {
    pub model: ModelRef,
    pub id: Option<String>,
    pub inputs: Vec<Tensor>,
    /// Empty means all outputs, in the model's order.
    pub outputs: Vec<RequestedOutput>,
    /// The default for outputs that do not say.
    pub binary_outputs: bool,
}

/// What the model gave, before it is written in the caller's protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub model: String,
    pub version: String,
    pub id: Option<String>,
    /// Each output, and whether the caller wants it raw.
    pub outputs: Vec<(Tensor, bool)>,
}

/// A protocol's grammar. Implementations hold what the request's head said (path, lengths) and nothing else.
pub trait Dialect {
    type Reply;

    /// The model, where the head already names it; a body that cannot be parsed is then counted under it.
    fn model(&self) -> Option<&ModelRef>;

    fn parse(&self, body: &Bytes, limits: &RequestLimits) -> Result<InferRequest, Fault>;

    /// Writes an answer. It may still fail: JSON has no NaN.
    fn answer(&self, answer: &Answer) -> Result<Self::Reply, Fault>;

    fn refuse(&self, fault: &Fault) -> Self::Reply;
}
