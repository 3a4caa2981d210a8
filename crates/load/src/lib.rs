//! The load generator: closed loop, and open loop at a constant rate with latency from the intended send time.
//!
//! It knows the wire and nothing else of flyball, so that it measures other servers the same way and cannot cheat. It
//! encodes tensors and checks answers with code of its own, for the same reason.
#![forbid(unsafe_code)]

mod expect;
mod grpc;
mod http;
mod outcome;
mod pace;
mod payloads;
mod plan;
mod run;
mod session;
mod tally;
mod tensor;
mod thread_time;

pub use outcome::{ErrorCount, LatencyUs, Outcome};
pub use payloads::{PayloadError, Payloads};
pub use plan::{Mode, Plan, PlanError, Protocol};
pub use run::{LoadError, Run};
