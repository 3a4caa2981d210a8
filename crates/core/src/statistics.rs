//! Totals of a model version since the server started: measured by telemetry, reported by `wire`.
//!
//! Sums only, so that two readings can be subtracted.

/// A count of events and their total duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    pub count: u64,
    pub ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelStatistics {
    pub name: String,
    pub version: String,
    /// The end of the last request in milliseconds since the epoch; zero if there was none.
    pub last_inference_ms: u64,
    /// Rows of answered requests.
    pub rows: u64,
    /// Successful runs.
    pub runs: u64,
    /// Whole walks: of answered requests, and of all others.
    pub answered: Timed,
    pub unanswered: Timed,
    /// Stages of answered requests. A shared run counts for each of its requests.
    pub queue: Timed,
    pub tensor: Timed,
    pub infer: Timed,
    pub respond: Timed,
    /// Runs by their number of rows, sorted; only sizes that occurred.
    pub runs_by_rows: Vec<(u64, Timed)>,
}
