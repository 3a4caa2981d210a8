//! Measurements of one walk, and the trait that receives them. Recording never waits.

use crate::{FaultKind, Nanos, Outcome, Protocol, Remedied, Stage};
use std::sync::Arc;
use std::time::Duration;

/// A caller's index among the counters: bounded, whatever the callers file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerIndex(pub u32);

impl CallerIndex {
    /// An unknown caller where authentication is required.
    pub const NONE: CallerIndex = CallerIndex(0);
    /// An unknown caller where anonymous access is allowed.
    pub const ANONYMOUS: CallerIndex = CallerIndex(1);
    /// The first index assigned to a caller of the callers file.
    pub const FIRST: usize = 2;
}

/// The measurements of one finished walk. `M` is the sink's type for a model.
#[derive(Clone, Debug)]
pub struct WalkRecord<'a, M> {
    /// `None` if no model was found for the request.
    pub model: Option<&'a M>,
    pub protocol: Protocol,
    pub caller: CallerIndex,
    pub outcome: Outcome,
    pub fault: Option<(FaultKind, Stage)>,
    /// Rows to run; zero for walks that ended earlier.
    pub rows: usize,
    pub ended: Nanos,
    pub total: Duration,
    /// The duration of each stage; `None` for stages that the walk did not reach.
    pub stages: [Option<Duration>; Stage::COUNT],
}

/// One run of a model, for one or several requests.
#[derive(Clone, Copy, Debug)]
pub struct RunRecord {
    pub rows: usize,
    /// The maximum number of rows that the run could have had.
    pub rows_max: usize,
    pub took: Duration,
    pub succeeded: bool,
}

/// The result of one row to decide. Excludes rows answered from the idempotency cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionRecord {
    /// The index of the outcome in the decision; none if the row was not decided.
    pub outcome: Option<usize>,
    pub remedy: Option<Remedied>,
}

/// A shadow that ran in the background and was compared with the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shadow {
    Variant,
    Policy,
}

/// The result of a shadow for one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shadowed {
    /// The shadow was skipped for lack of capacity.
    Dropped,
    Failed,
    /// `apart` is the absolute difference of the scores; zero for a policy.
    Compared {
        agrees: bool,
        apart: f64,
    },
}

/// Receives walk records. A sink belongs to one lane; it must not block or fail.
pub trait Sink {
    type Model;

    fn received(&self);

    fn record(&self, record: &WalkRecord<'_, Self::Model>);

    fn batch(&self, model: &Self::Model, run: &RunRecord);

    /// Records each row that was decided or should have been.
    fn decided(&self, decision: &Self::Model, row: &DecisionRecord);

    /// Rows that got the response of an earlier request through its idempotency key.
    fn repeated(&self, decision: &Self::Model, rows: usize);

    fn shadowed(&self, decision: &Self::Model, of: Shadow, row: Shadowed);
}

/// Creates meters for models and decisions. `M` is the sink's type.
pub trait Meters<M>: Send + Sync {
    fn model(&self, name: &str, version: &str) -> Arc<M>;

    /// Creates a meter for a decision: its walks, and its rows by outcome index.
    fn decision(&self, name: &str, outcomes: &[Arc<str>]) -> Arc<M>;
}
