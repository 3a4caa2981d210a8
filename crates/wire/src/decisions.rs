//! Decisions on the wire: named fields in, as JSON or protobuf, and what was decided out.
//!
//! Rows go straight from the body to whoever takes them, and answers straight into their buffer: no tree is built either
//! way. What a field may hold is not known here.

mod answer;
mod describe;
mod grpc;
mod http;
mod message;
mod problem;
mod request;
mod rows;

pub use describe::{DecisionFacts, FieldFacts, ModelFacts};
pub use grpc::GrpcDecision;
pub use http::HttpDecision;
pub use problem::{CONTENT_TYPE as PROBLEM_JSON, Problem};

#[cfg(test)]
mod tests;
