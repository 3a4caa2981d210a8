//! What comes back from a source.

use crate::Record;
use std::sync::Arc;
use std::time::Duration;

/// Why a source did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Not within the source's timeout, or what the deadline left.
    Timeout,
    /// It is known not to be there; nobody waited for it.
    Down,
    /// What it answered cannot be used.
    Bad,
    /// Too many already wait for it.
    Busy,
}

impl Why {
    pub const fn label(self) -> &'static str {
        match self {
            Why::Timeout => "timeout",
            Why::Down => "down",
            Why::Bad => "bad",
            Why::Busy => "busy",
        }
    }
}

#[derive(Clone, Debug)]
pub enum Lookup {
    Found {
        record: Arc<Record>,
        /// Since it was fetched, and how old it said that it was then.
        age: Duration,
        from_cache: bool,
    },
    /// The source answered that it has no such key.
    Absent,
    Failed {
        why: Why,
        /// What is known from before, however old.
        stale: Option<(Arc<Record>, Duration)>,
    },
}
