//! Everything that crosses a socket: V2 JSON and binary bodies, protobuf messages, gRPC frames, metadata.
//!
//! Turns bytes into core's neutral requests and responses into bytes. Must not know sockets, runtimes or
//! models.
#![forbid(unsafe_code)]

pub mod annotations;
pub mod body;
pub mod coding;
pub mod configuration;
mod decisions;
mod fields;
pub mod frame;
pub mod metadata;
pub mod proto;
pub mod reflection;
pub mod regions;
pub mod repository;
pub mod shared_memory;
pub mod statistics;
#[cfg(test)]
mod testing;
mod v2;

pub use decisions::{
    DecisionFacts, FieldFacts, GrpcDecision, HttpDecision, ModelFacts, PROBLEM_JSON, Problem,
};
pub use v2::{GrpcDialect, GrpcReply, HttpDialect, HttpReply, StreamDialect, StreamReply};
pub use v2::{RawTensor, read_raw, write_raw};
