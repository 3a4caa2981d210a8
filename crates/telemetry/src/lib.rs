//! Flyball's own measurements: histograms and counters for `/metrics`, and the JSON log.
//!
//! Each counter has one writer, its lane, so that counting is a plain load and store and never waits; readers
//! may see a sum that is a request behind, never a wrong one.
#![forbid(unsafe_code)]

mod callers;
mod counter;
mod decisions;
mod exposition;
mod histogram;
mod logs;
mod meters;
mod statistics;
mod triton_page;

pub use callers::CALLERS_MAX;
pub use counter::Counter;
pub use exposition::{BuildFacts, Family, Gauges, HistogramCounts, HistogramFamily};
pub use histogram::Histogram;
pub use logs::{LogFormat, LogLevel, init_logs};
pub use meters::{LaneSink, ModelMeter, Telemetry, Totals};
pub use triton_page::{TritonModel, triton_page};
