//! Triton's extensions: one function per request, in neutral form, and the check of rights.
//!
//! HTTP and gRPC only decode requests and encode responses.

pub(crate) mod configuration;
pub(crate) mod repository;
pub(crate) mod shared_memory;
pub(crate) mod statistics;

use flyball_core::Fault;

/// Triton's trace settings, which this server does not have.
pub(crate) fn trace() -> Fault {
    let text = "trace settings are not offered; /metrics has the time of each stage, for each model";
    Fault::not_offered(text)
}

pub(crate) fn logging() -> Fault {
    let text = "log settings cannot be changed by a request; the server's setting 'log' has the level";
    Fault::not_offered(text)
}
