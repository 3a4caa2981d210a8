//! Model hosts: child processes that load and probe untested models, and run blocking ones.
//!
//! An endless loop, an operator that cannot be interrupted, a crash or a lack of memory then costs only a
//! child process, which is killed.
//!
//! A host is this same program, started again by its `HostCommand`. Parent and host exchange `frame`s over a
//! socket pair: `process` is the parent's end, `serve` the host's, `prove` serves loads, `hosted` serves
//! lanes. Knows nothing of deployments or lanes.

mod frame;
mod hosted;
mod message;
mod process;
mod prove;
mod serve;

pub use hosted::{HostedModel, ReadModel};
pub use process::HostError;
pub use prove::{ModelHosts, ProbeLimits};
pub(crate) use prove::{Proof, ProofRequest};
pub use serve::serve_models;

use std::ffi::OsString;
use std::path::PathBuf;

/// The command that starts this program as a model host: it must only call [`serve_models`].
#[derive(Clone, Debug)]
pub struct HostCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

#[cfg(test)]
pub(crate) mod tests;
