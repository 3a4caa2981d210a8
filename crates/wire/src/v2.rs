//! The Open Inference Protocol V2 in its three forms: JSON, JSON with binary data, protobuf.
//!
//! Each form only parses and encodes; their shared checks are in `check.rs`.

mod binary;
mod check;
mod contents;
mod envelope;
mod grpc;
mod http;
mod infer_request;
mod infer_response;
mod json;
mod non_finite;
mod numbers;
mod parameters;
mod raw;
mod shared;
mod stream;

pub use grpc::{GrpcDialect, GrpcReply};
pub(crate) use http::whole_seconds;
pub use http::{HttpDialect, HttpReply};
pub use json::error_body;
pub use raw::{RawTensor, read_raw, write_raw};
pub use stream::{StreamDialect, StreamReply};

#[cfg(test)]
mod tests;
