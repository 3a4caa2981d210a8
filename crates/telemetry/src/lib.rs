//! What flyball measures of itself: histograms and counters written by lanes without waiting, read by `/metrics`;
//! and the set-up of the JSON log.
//!
//! Each counter has one writer, its lane, so that counting is a plain load and store; readers may see a sum that is a
//! request behind, never one that is wrong.
#![forbid(unsafe_code)]

mod callers;
mod counter;
mod decisions;
mod exposition;
mod histogram;
mod logs;
mod meters;
mod statistics;

pub use callers::CALLERS_MAX;
pub use counter::Counter;
pub use exposition::{BuildFacts, Family, Gauges, Spread, Spreading};
pub use histogram::Histogram;
pub use logs::{LogLevel, init_logs};
pub use meters::{LaneSink, ModelMeter, Telemetry, Totals};
