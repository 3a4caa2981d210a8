//! Finds the longest idle connection, to evict it when all slots are taken.
//!
//! A connection marks the start and end of requests with relaxed stores; the acceptor reads them only when full.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The resolution of idle times. Ticked by the acceptor, so that requests read no clock.
pub(crate) const TICK: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct OpenConnections {
    /// In order of arrival.
    open: Mutex<BTreeMap<u64, Arc<Usage>>>,
    came: AtomicU64,
    now: Arc<AtomicU32>,
    evicted: AtomicU64,
}

/// The use of one connection.
pub(crate) struct Usage {
    now: Arc<AtomicU32>,
    busy: AtomicBool,
    /// The tick of its last use.
    used_at: AtomicU32,
    asked: AtomicBool,
    leave: Notify,
}

impl Usage {
    pub(crate) fn begin(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    /// The last request on it has ended.
    pub(crate) fn end(&self) {
        self.touch();
        self.busy.store(false, Ordering::Relaxed);
    }

    pub(crate) fn touch(&self) {
        self.used_at.store(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Waits until the connection is evicted while idle; a new request keeps it.
    pub(crate) async fn evicted(&self) {
        loop {
            self.leave.notified().await;
            if !self.busy.load(Ordering::Relaxed) {
                return;
            }
            self.asked.store(false, Ordering::Relaxed);
        }
    }
}

/// A connection's entry, removed when dropped.
pub(crate) struct OpenConnection {
    of: Arc<OpenConnections>,
    came: u64,
    pub(crate) usage: Arc<Usage>,
}

impl OpenConnections {
    pub(crate) fn enter(self: &Arc<OpenConnections>) -> OpenConnection {
        let came = self.came.fetch_add(1, Ordering::Relaxed);
        let usage = Arc::new(Usage {
            now: Arc::clone(&self.now),
            busy: AtomicBool::new(false),
            used_at: AtomicU32::new(self.now.load(Ordering::Relaxed)),
            asked: AtomicBool::new(false),
            leave: Notify::new(),
        });
        self.lock().insert(came, Arc::clone(&usage));
        OpenConnection { of: Arc::clone(self), came, usage }
    }

    pub(crate) fn tick(&self) {
        self.now.fetch_add(1, Ordering::Relaxed);
    }

    /// Evicts the longest idle connection; false if none is idle.
    pub(crate) fn evict(&self) -> bool {
        let idle =
            |usage: &&Arc<Usage>| !usage.busy.load(Ordering::Relaxed) && !usage.asked.load(Ordering::Relaxed);
        let open = self.lock();
        let oldest = open.values().filter(idle).min_by_key(|usage| usage.used_at.load(Ordering::Relaxed));
        let Some(oldest) = oldest else { return false };
        oldest.asked.store(true, Ordering::Relaxed);
        oldest.leave.notify_one();
        self.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Usage>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.of.lock().remove(&self.came);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(connection: &OpenConnection) -> bool {
        connection.usage.asked.load(Ordering::Relaxed)
    }

    #[test]
    fn the_connection_that_was_used_longest_ago_leaves_first_and_a_busy_one_never() {
        let open = Arc::new(OpenConnections::default());
        let (busy, used, unused) = (open.enter(), open.enter(), open.enter());
        busy.usage.begin();
        used.usage.begin();
        open.tick();
        used.usage.end();
        assert!(open.evict());
        assert!(asked(&unused) && !asked(&used));
        assert!(open.evict());
        assert!(asked(&used));
        assert!(!open.evict(), "the last one has a request");
        busy.usage.end();
        assert!(open.evict());
        assert_eq!(open.evictions(), 3);
        drop((busy, used, unused));
        assert!(open.lock().is_empty());
    }

    #[test]
    fn of_two_that_were_used_at_the_same_time_the_earlier_leaves() {
        let open = Arc::new(OpenConnections::default());
        let (first, second) = (open.enter(), open.enter());
        assert!(open.evict());
        assert!(asked(&first) && !asked(&second));
    }

    #[tokio::test]
    async fn a_request_that_comes_before_its_connection_hears_of_it_keeps_the_connection() {
        let open = Arc::new(OpenConnections::default());
        let connection = open.enter();
        assert!(open.evict());
        connection.usage.begin();
        tokio::select! {
            biased;
            () = connection.usage.evicted() => panic!("it has a request"),
            () = tokio::task::yield_now() => {}
        }
        connection.usage.end();
        assert!(open.evict(), "it may be asked again");
        connection.usage.evicted().await;
    }
}
