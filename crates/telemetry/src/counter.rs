//! A counter with one writer. A relaxed load and store cost as much as a plain add; readers are safe.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Only the owning lane may call this: two writers could lose counts (never memory safety).
    pub fn add(&self, step: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(step), Ordering::Relaxed);
    }

    /// The same rule as for `add`.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
