//! The data plane: what happens to one request between its bytes and its reply.
//!
//! Start with `decide.rs`, the walk of a request (`governed.rs` has what is particular to decisions), then `batch.rs`, the walk of a batch. There is no third. Knows
//! nothing of sockets or protocols (see `Dialect`), nor of how measurements are kept (see `Sink`).
#![forbid(unsafe_code)]

mod admission;
mod apply;
mod backlog;
mod batch;
mod breaker;
mod candidate;
mod chores;
mod decide;
mod decision;
mod fingerprint;
mod governed;
mod job;
mod judge;
mod lane;
mod loaded;
mod out;
mod plane;
mod reply;
mod routes;
mod schedule;
mod service;
mod share;
#[cfg(test)]
mod simulation;
mod states;
#[cfg(test)]
mod testing;
mod stages {
    pub(crate) mod admit;
    pub(crate) mod classify;
    pub(crate) mod features;
    pub(crate) mod policy;
    pub(crate) mod reasons;
    pub(crate) mod route;
    pub(crate) mod tensor;
    pub(crate) mod whole;
}
mod walk;
mod watchdog;

pub use apply::{Ack, AckState, Engine, Loader, NotLoaded, Outcome, VersionAck};
pub use decide::{Arrival, Inference, Request, decide};
pub use decision::{Decision, find as find_decision};
pub use fingerprint::Fingerprint;
pub use governed::Governed;
pub use judge::{Approved, Judge, Keep, Standing, Taken};
pub use lane::Lane;
pub use loaded::{Deployment, Model};
pub use plane::{Build, LaneInbox, Lanes, Means, Plane, PlaneLimits};
pub use routes::{Absence, Routes};
pub use stages::route::route;
pub use states::{Applied, DeploymentState, State, Tried};
pub use walk::Walk;
