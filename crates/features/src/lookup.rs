//! The result of a lookup.

use crate::Record;
use std::sync::Arc;
use std::time::Duration;

flyball_core::labelled! {
    /// Why a source did not answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum LookupError {
        /// Not within the source's timeout, or the rest of the deadline.
        Timeout => "timeout",
        /// Known to be unreachable; nothing waited.
        Down => "down",
        /// The response is unusable.
        Bad => "bad",
        /// Too many requests already wait for it.
        Busy => "busy",
    }
}

#[derive(Clone, Debug)]
pub enum Lookup {
    Found {
        record: Arc<Record>,
        /// Time since the fetch plus the record's age then.
        age: Duration,
        from_cache: bool,
    },
    /// The source has no such key.
    Absent,
    Failed {
        why: LookupError,
        /// The last known record, however old.
        stale: Option<(Arc<Record>, Duration)>,
    },
}
