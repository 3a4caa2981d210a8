//! The time of day, in milliseconds since 1970.
//!
//! It may step, so it only measures ages of external data and bounds events from the future, never durations.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

/// A source of the time of day. Cloning is cheap, and clones agree.
#[derive(Clone, Debug, Default)]
pub struct WallClock(Option<Arc<AtomicI64>>);

impl WallClock {
    pub fn system() -> WallClock {
        WallClock(None)
    }

    /// A clock that only [`WallClock::advance_ms`] moves, for tests.
    pub fn manual(now_ms: i64) -> WallClock {
        WallClock(Some(Arc::new(AtomicI64::new(now_ms))))
    }

    pub fn now_ms(&self) -> i64 {
        match &self.0 {
            Some(manual) => manual.load(Ordering::Relaxed),
            None => self.now_ns() / 1_000_000,
        }
    }

    /// The time in nanoseconds, for records.
    pub fn now_ns(&self) -> i64 {
        match &self.0 {
            Some(manual) => manual.load(Ordering::Relaxed).saturating_mul(1_000_000),
            None => {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
            }
        }
    }

    /// Sets a manual clock while replaying events. Has no effect on the system clock.
    pub fn set_ms(&self, now_ms: i64) {
        if let Some(manual) = &self.0 {
            manual.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Moves a manual clock. Has no effect on the system clock.
    pub fn advance_ms(&self, by: i64) {
        if let Some(manual) = &self.0 {
            manual.fetch_add(by, Ordering::Relaxed);
        }
    }
}
