//! The time of day, in milliseconds since 1970. It may step; only ages of what others wrote and the bound on events from
//! the future are told by it, never how long something took.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

/// Where the time of day comes from. Cloning is cheap, and clones agree.
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
            None => match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
                Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
                Err(_) => 0,
            },
        }
    }

    /// The same in nanoseconds, for records.
    pub fn now_ns(&self) -> i64 {
        match &self.0 {
            Some(_) => self.now_ms().saturating_mul(1_000_000),
            None => match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
                Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
                Err(_) => 0,
            },
        }
    }

    /// Sets a manual one, as past events are gone through; the system's is left alone.
    pub fn set_ms(&self, now_ms: i64) {
        if let Some(manual) = &self.0 {
            manual.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Moves a manual one; the system's is left alone.
    pub fn advance_ms(&self, by: i64) {
        if let Some(manual) = &self.0 {
            manual.fetch_add(by, Ordering::Relaxed);
        }
    }
}
