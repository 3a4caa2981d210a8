//! Deployments from Snapshot to serving: verified, loaded, swapped into the routes, kept warm, and dropped.
//!
//! Start with `apply.rs`. Knows neither protocols nor requests: requests find a deployment in the plane's routes.
#![forbid(unsafe_code)]

mod apply;
mod candidate;
mod fingerprint;
mod reaper;
mod states;
mod trust_gate;
mod warm_pool;

pub use apply::{Ack, AckState, Engine, Loader, NotLoaded, Outcome, VersionAck};
pub use fingerprint::Fingerprint;
pub use states::{Applied, DeploymentState, State};
pub use trust_gate::{IndexMark, KeepMark, TrustGate};
