//! The data plane: serves one request from its bytes to its reply.
//!
//! Three walks, each in one file: a request's (`decide.rs`), a batch's (`batch.rs`) and a shadow's (`shadow_walk.rs`). Knows
//! nothing of sockets or protocols (see `Dialect`), nor of how measurements are kept (see `Sink`).
#![forbid(unsafe_code)]

mod admission;
mod backlog;
mod batch;
mod breaker;
mod classification;
mod client_shapes;
mod decide;
mod decision;
mod decision_request;
mod decision_walk;
mod idempotency;
mod inference;
mod job;
mod journal_slots;
mod lane;
mod lane_services;
mod loaded;
mod out;
mod plan;
mod plane;
mod pressure;
mod raw_body;
mod reasons;
mod remedies;
mod reply;
mod request;
mod routes;
mod row_buffers;
mod row_record;
mod schedule;
mod service;
mod shadow_walk;
mod share;
#[cfg(test)]
mod simulation;
mod tensor_record;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod stages {
    pub(crate) mod admit;
    pub(crate) mod features;
    pub(crate) mod infer;
    pub(crate) mod parse;
    pub(crate) mod policy;
    pub(crate) mod queue;
    pub(crate) mod record;
    pub(crate) mod respond;
    pub(crate) mod route;
    pub(crate) mod tensor;
}
mod walk;
mod watchdog;

pub use admission::Gate;
pub use client_shapes::ClientShapes;
pub use decision::{
    Backfill, BackfillFault, CANDIDATE_KIND_MISMATCH, Decision, DecisionContext, Filled, compile_decision,
};
pub use decision_request::DecisionRequest;
pub use inference::Inference;
pub use lane::Lane;
pub use loaded::{Approved, CandidateState, Deployment, Model, ModelParts, Origin, Provenance, Terms, Trial};
pub use plane::{Build, LaneInbox, Lanes, Plane, PlaneLimits, PlaneServices};
pub use pressure::MemoryLooks;
pub use request::{Arrival, Request, serve};
pub use routes::{Absence, Routes};
pub use schedule::BatchWait;
pub use service::Conduct;
pub use stages::route::{exposed, find_decision, ready, route};
pub use walk::Walk;
pub use watchdog::Watchdog;
