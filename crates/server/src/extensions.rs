//! Triton's extensions: one function for each question, in neutral form. HTTP and gRPC read the question and write the
//! answer, and nothing else; what may be asked is decided here.

pub(crate) mod configuration;
pub(crate) mod repository;
pub(crate) mod shared_memory;
pub(crate) mod statistics;

use crate::lane_thread::Shared;
use flyball_core::{Fault, FaultKind, Stage};

/// Whether whoever asks may change what is served to everybody. Where callers are known, one of them must have been given
/// `control`; where none are, the setting that allows the change allows it to all.
fn may_control(shared: &Shared, control: bool) -> Result<(), Fault> {
    if control || shared.callers.is_none() {
        return Ok(());
    }
    let text = "loading, unloading, registering and unregistering need a caller with control; set \"control\": true for it \
                in the callers' file";
    Err(Fault::new(FaultKind::Forbidden, Stage::Admit, text))
}

/// What Triton has and this server leaves to others.
pub(crate) fn trace() -> Fault {
    let text = "trace settings are not offered; /metrics has the time of each stage, for each model";
    Fault::not_offered(text)
}

pub(crate) fn logging() -> Fault {
    let text = "log settings cannot be changed by a request; the server's setting 'log' has the level";
    Fault::not_offered(text)
}
