//! Counters of sources and windows for metrics, readable at any time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one source. Sources of the same kind and set are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceCounts {
    /// `redis` or `store`.
    pub kind: &'static str,
    pub set: String,
    /// Answered by the cache, including absent keys.
    pub hits: u64,
    /// Fetched from the source, or joined to an ongoing fetch.
    pub misses: u64,
    /// Failed, with an older record available.
    pub stale: u64,
    pub timeouts: u64,
    pub down: u64,
    pub bad: u64,
    pub busy: u64,
    /// Evicted records.
    pub evictions: u64,
    /// Records in the cache now.
    pub entries: u64,
}

impl SourceCounts {
    pub(crate) fn add(&mut self, other: &SourceCounts) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.stale += other.stale;
        self.timeouts += other.timeouts;
        self.down += other.down;
        self.bad += other.bad;
        self.busy += other.busy;
        self.evictions += other.evictions;
        self.entries += other.entries;
    }
}

/// Counts of one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowCounts {
    pub name: String,
    /// Added events.
    pub events: u64,
    /// Events older than the window, which were not added.
    pub late: u64,
    /// Events too far in the future, which were not added.
    pub future: u64,
    /// Evicted keys.
    pub evictions: u64,
    /// Values at their bound.
    pub saturated: u64,
    pub failed: u64,
    /// Keys stored now.
    pub keys: u64,
}

/// Counts with `Relaxed`: each is exact, but they need not agree at one instant.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct SourceCounters {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) stale: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) down: Counter,
    pub(crate) bad: Counter,
    pub(crate) busy: Counter,
    pub(crate) evictions: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct WindowCounters {
    pub(crate) events: Counter,
    pub(crate) late: Counter,
    pub(crate) future: Counter,
    pub(crate) evictions: Counter,
    pub(crate) saturated: Counter,
    pub(crate) failed: Counter,
}
