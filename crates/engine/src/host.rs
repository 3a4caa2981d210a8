//! Model hosts: child processes in which models that nobody has tried yet are loaded and probed, and in which models run
//! that once held a lane for good. A loop without an end, an operator that cannot be interrupted, a crash or a lack of
//! memory then costs a child, which is killed, and nothing else.
//!
//! A host is this same program, started again by its `HostCommand`. Parent and host exchange `frame`s over a socket pair:
//! `process` is the parent's end, `serve` the host's, `prove` what loads use it for, `hosted` what lanes do. Knows nothing
//! of deployments or lanes.

mod frame;
mod hosted;
mod message;
mod process;
mod prove;
mod serve;

pub use hosted::{HostedModel, ReadModel};
pub use process::HostError;
pub use prove::{ModelHosts, ProbeLimits};
pub(crate) use prove::{Proof, ProofAsk};
pub use serve::serve_models;

use std::ffi::OsString;
use std::path::PathBuf;

/// How to start this program as a model host: it must call [`serve_models`] and nothing else.
#[derive(Clone, Debug)]
pub struct HostCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

#[cfg(test)]
pub(crate) mod tests;
