//! Windows: count, sum, mean and distinct values of a key's events over the last N milliseconds of event time.

use crate::counters::WindowCounters;
use crate::{Source, Why};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowOp {
    Count,
    Sum,
    Mean,
    Distinct,
}

/// What a window is. Those with the same name, op and length share what they know, across reloads and restarts.
#[derive(Clone)]
pub struct WindowDef {
    /// Whose events these are: the decision and the feature with all that it counts. An event is to be written once for
    /// each name, so two features never share one.
    pub name: String,
    pub op: WindowOp,
    pub last_ms: u64,
    /// A Redis source that several replicas share; none: embedded, of this process alone.
    pub source: Option<Source>,
}

/// A window that was opened. Clones are the same one.
#[derive(Clone)]
pub struct Window(pub(crate) Arc<WindowState>);

/// What an event brings. Sums and means take numbers; distinct takes both; count looks at none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WindowValue<'a> {
    /// Missing: the event does not count, but for `count`.
    None,
    Number(f64),
    Text(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Windowed {
    /// `saturated`: at least so many distinct values; it could not hold more.
    Value {
        value: f64,
        saturated: bool,
    },
    /// It has not seen a whole window yet.
    Warming,
    /// The event is so much older than others of its key that what was before it is no longer known.
    Late,
    /// A mean of no events.
    Empty,
    Failed {
        why: Why,
    },
}

pub(crate) struct WindowState {
    pub(crate) def: WindowDef,
    pub(crate) counters: WindowCounters,
}
