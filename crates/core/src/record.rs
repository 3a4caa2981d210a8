//! What one walk leaves behind, and the trait by which it is handed on. Offering never waits.

use crate::{FaultKind, Nanos, Outcome, Protocol, Stage};
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

/// Where walks are recorded. One sink belongs to one lane; it must not block and must not fail.
pub trait Sink {
    type Model;

    fn received(&self);

    fn record(&self, record: &WalkRecord<'_, Self::Model>);

    fn batch(&self, model: &Self::Model, run: &RunRecord);
}
