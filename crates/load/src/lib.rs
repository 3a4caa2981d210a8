//! The load generator: closed loop, and open loop with latency from the intended send time.
//!
//! It also has an echo to measure the generator itself. It uses only flyball's `wire` crate, so that it
//! measures other servers the same way and cannot cheat. For the same reason it encodes tensors and checks
//! responses with its own code.
#![forbid(unsafe_code)]

mod arrivals;
mod control;
mod drive;
mod echo;
mod expect;
mod generator;
mod grpc;
mod histogram;
mod http;
mod links;
mod outcome;
mod pace;
mod patience;
mod payloads;
mod plan;
mod queue;
mod run;
mod session;
mod stream;
mod tally;
mod tensor;
mod thread_time;
mod timeline;
mod timetable;
mod warmup;
mod worker;

pub use arrivals::Arrivals;
pub use control::Phase;
pub use echo::{Echo, EchoError, EchoOptions};
pub use histogram::{HistogramError, LatencyUs, MergedHistogram, read_histograms};
pub use outcome::{ErrorCount, Generator, Outcome, WarmedUp};
pub use payloads::{PayloadError, Payloads};
pub use plan::{Plan, PlanError, Protocol, Warmup};
pub use run::{LoadError, Run};
pub use timeline::Interval;
