//! A lane's executor: polls each future only after its waker was called, and waits while none was.

use crate::tickets::Tickets;
use flyball_core::Unavailable;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Condvar, Mutex};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A lane's sleep. Not by loom's `park`, which forgets an `unpark` that comes while the thread yields.
struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        while !*rung {
            rung = self.heard.wait(rung).unwrap_or_else(PoisonError::into_inner);
        }
        *rung = false;
    }
}

/// A future's waker: the executor polls it again once it was called.
struct Called {
    again: AtomicBool,
    lane: Arc<Bell>,
}

impl Wake for Called {
    fn wake(self: Arc<Called>) {
        // Loom orders a store and a swap that are concurrent either way, even where the swap cannot have seen the store.
        self.again.swap(true, Ordering::Release);
        self.lane.ring();
    }
}

/// Waits on this thread until all these tickets are settled. A lost wake-up leaves it waiting for ever, which loom reports.
pub(crate) fn settled(tickets: &Tickets, asked: &[u64]) -> Vec<Result<(), Unavailable>> {
    let lane = Arc::new(Bell { rung: Mutex::new(false), heard: Condvar::new() });
    let called = || Arc::new(Called { again: AtomicBool::new(true), lane: Arc::clone(&lane) });
    let mut waiting: Vec<_> = asked.iter().map(|ticket| (*ticket, called(), None)).collect();
    while waiting.iter().any(|(.., result)| result.is_none()) {
        let mut polled = false;
        for (ticket, called, result) in &mut waiting {
            if result.is_none() && called.again.swap(false, Ordering::AcqRel) {
                polled = true;
                let waker = Waker::from(Arc::clone(called));
                if let Poll::Ready(settled) = tickets.poll(*ticket, &mut Context::from_waker(&waker)) {
                    *result = Some(settled);
                }
            }
        }
        if !polled {
            lane.wait();
        }
    }
    waiting.into_iter().filter_map(|(.., result)| result).collect()
}
