//! What a run found, in the form that crosses the boundary to Python.

use serde::Serialize;

/// The result of a run. Warm-up is left out. `sent == answered + refused + failed + mismatched`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests that were due in the measured time, those among them that the generator could not send included.
    pub sent: u64,
    /// Right answers.
    pub answered: u64,
    /// Turned away by the server: the caller's fault, overload, or not ready.
    pub refused: u64,
    /// No answer, or the server's own fault.
    pub failed: u64,
    /// Answers with the wrong id or other outputs than expected.
    pub mismatched: u64,
    pub first_problem: Option<String>,
    pub errors: Vec<ErrorCount>,
    pub elapsed_s: f64,
    /// Right answers a second.
    pub rate_per_s: f64,
    /// Of right answers; in an open loop from the intended send time.
    pub latency_us: LatencyUs,
    /// The latencies in nanoseconds, as HdrHistogram V2 (not compressed) in base64.
    pub histogram: String,
    /// Share of requests that left more than 1 ms after they were due, or never.
    pub late_share: f64,
    /// In words, when the generator and not the server set the limit.
    pub bottleneck: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    pub reason: String,
    pub count: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyUs {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    pub mean: f64,
}
