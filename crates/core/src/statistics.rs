//! What a model version has done since the server began, as sums: measured by telemetry, told by the wire.
//!
//! Sums only, so that two readings can be subtracted from each other.

/// How often something happened, and how long it took altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    pub count: u64,
    pub ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelStatistics {
    pub name: String,
    pub version: String,
    /// When the last request ended, in milliseconds since the epoch; zero where there was none.
    pub last_inference_ms: u64,
    /// Rows of requests that were answered.
    pub rows: u64,
    /// Runs that came to a good end.
    pub runs: u64,
    /// Whole walks of answered requests, and of all others.
    pub answered: Timed,
    pub unanswered: Timed,
    /// Stages of answered requests: a run that several shared counts for each of them.
    pub queue: Timed,
    pub tensor: Timed,
    pub infer: Timed,
    pub respond: Timed,
    /// Runs by the number of rows that they carried, in order; only sizes that occurred.
    pub runs_by_rows: Vec<(u64, Timed)>,
}
