//! The data plane: what happens to one request between its bytes and its reply.
//!
//! Start with `decide.rs`, the walk of a request, then `batch.rs`, the walk of a batch. There is no third. Knows
//! nothing of sockets or protocols (see `Dialect`), nor of how measurements are kept (see `Sink`).
#![forbid(unsafe_code)]

mod admission;
mod apply;
mod batch;
mod chores;
mod decide;
mod lane;
mod loaded;
mod queue;
mod routes;
mod share;
mod stages {
    pub(crate) mod admit;
    pub(crate) mod route;
    pub(crate) mod tensor;
}
mod walk;

pub use apply::{Ack, AckState, Loader, VersionAck};
pub use decide::{Arrival, decide};
pub use lane::{Lane, LaneInbox, Plane, PlaneLimits};
pub use loaded::{Deployment, Model};
pub use routes::Routes;
pub use stages::route::route;
pub use walk::Walk;
