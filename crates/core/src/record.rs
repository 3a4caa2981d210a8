//! What one walk leaves behind, and the trait by which it is handed on. Offering never waits.

use crate::{FaultKind, Nanos, Outcome, Protocol, Remedied, Stage};
use std::sync::Arc;
use std::time::Duration;

/// Who asked, as a place among counters: bounded, whatever the callers' file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerIndex(pub u32);

impl CallerIndex {
    /// Nobody that is known, where somebody must be.
    pub const NONE: CallerIndex = CallerIndex(0);
    /// Nobody that is known, where that is allowed.
    pub const ANONYMOUS: CallerIndex = CallerIndex(1);
    /// The first that a callers' file gives out.
    pub const FIRST: usize = 2;
}

/// The measurements of one finished walk. `M` names the model in the sink's own terms.
#[derive(Clone, Debug)]
pub struct WalkRecord<'a, M> {
    /// `None` when no model was found for the request.
    pub model: Option<&'a M>,
    pub protocol: Protocol,
    pub caller: CallerIndex,
    pub outcome: Outcome,
    pub fault: Option<(FaultKind, Stage)>,
    /// Rows that its model was to run; zero for walks that did not get that far.
    pub rows: usize,
    pub ended: Nanos,
    pub total: Duration,
    /// How long each stage took; `None` for stages that the walk did not reach.
    pub stages: [Option<Duration>; Stage::COUNT],
}

/// One run of a model, for one request or for several.
#[derive(Clone, Copy, Debug)]
pub struct RunRecord {
    pub rows: usize,
    /// The rows that it might have carried.
    pub rows_max: usize,
    pub took: Duration,
    pub succeeded: bool,
}

/// What became of one row that was to be decided. Rows that are answered from memory are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionRecord {
    /// By its place among the decision's outcomes; none: it was not decided.
    pub outcome: Option<usize>,
    pub remedy: Option<Remedied>,
}

/// What ran beside a decision and was compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shadow {
    Variant,
    Policy,
}

/// What came of it for one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shadowed {
    /// There was no room for it.
    Dropped,
    Failed,
    /// `apart`: how far its score was from the one that counted; zero for a policy.
    Compared {
        agrees: bool,
        apart: f64,
    },
}

/// Where walks are recorded. One sink belongs to one lane; it must not block and must not fail.
pub trait Sink {
    type Model;

    fn received(&self);

    fn record(&self, record: &WalkRecord<'_, Self::Model>);

    fn batch(&self, model: &Self::Model, run: &RunRecord);

    /// For each row that was decided, or should have been.
    fn decided(&self, decision: &Self::Model, row: &DecisionRecord);

    /// Rows that got the answer of an earlier request, by its idempotency key.
    fn repeated(&self, decision: &Self::Model, rows: usize);

    fn shadowed(&self, decision: &Self::Model, of: Shadow, row: Shadowed);
}

/// Makes what measures models and decisions: `M` is the sink's own.
pub trait Meters<M>: Send + Sync {
    fn model(&self, name: &str, version: &str) -> Arc<M>;

    /// Of a whole decision: its walks, and its rows by outcome, which a record names by its place here.
    fn decision(&self, name: &str, outcomes: &[Arc<str>]) -> Arc<M>;
}
