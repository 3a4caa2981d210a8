//! Triton's extensions: one function for each question, in neutral form. HTTP and gRPC read the question and write the
//! answer, and nothing else; what may be asked is decided here.

pub(crate) mod configuration;
pub(crate) mod repository;
pub(crate) mod shared_memory;
pub(crate) mod statistics;

use flyball_core::Fault;

/// What Triton has and this server leaves to others.
pub(crate) fn trace() -> Fault {
    let text = "trace settings are not offered; /metrics has the time of each stage, for each model";
    Fault::not_offered(text)
}

pub(crate) fn logging() -> Fault {
    let text = "log settings cannot be changed by a request; the server's setting 'log' has the level";
    Fault::not_offered(text)
}
