//! Decisions on the wire: named fields in, as JSON or protobuf, and decisions out.
//!
//! Rows go straight from the body to a sink, and responses straight into their buffer: neither builds a tree.
//! Does not know the schema.

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
