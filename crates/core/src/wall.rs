//! The time of day, since 1970. It may step: use it for dates and for the age of what others wrote, never for durations.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

const NANOS_PER_MS: i64 = 1_000_000;

/// A source of the time of day. Cloning is cheap, and clones agree.
#[derive(Clone, Debug, Default)]
pub struct Wall(Option<Arc<AtomicI64>>);

impl Wall {
    pub fn system() -> Wall {
        Wall(None)
    }

    /// One that moves only by [`Wall::advance_ms`], for tests.
    pub fn manual(now_ms: i64) -> Wall {
        Wall(Some(Arc::new(AtomicI64::new(now_ms))))
    }

    pub fn now_ms(&self) -> i64 {
        match &self.0 {
            Some(manual) => manual.load(Ordering::Relaxed),
            None => self.now_ns() / NANOS_PER_MS,
        }
    }

    /// The same in nanoseconds, for records.
    pub fn now_ns(&self) -> i64 {
        match &self.0 {
            Some(_) => self.now_ms().saturating_mul(NANOS_PER_MS),
            None => {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
            }
        }
    }

    /// Sets a manual one, as past events are replayed; does nothing to the system's.
    pub fn set_ms(&self, now_ms: i64) {
        if let Some(manual) = &self.0 {
            manual.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Moves a manual one; does nothing to the system's.
    pub fn advance_ms(&self, by: i64) {
        if let Some(manual) = &self.0 {
            manual.fetch_add(by, Ordering::Relaxed);
        }
    }
}
