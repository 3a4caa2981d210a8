//! Which caller waits for which record of a lane, and how far records are settled.
//!
//! The writer settles and wakes one waiting future; that one, on the lane's thread, wakes the others, so that
//! a commit costs a lane one cross-thread wake-up. Knows numbers and wakers, not records or files.

use crate::ring::RING_RECORDS;
use crate::sync::{ArrayQueue, AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, PoisonError, fence};
use flyball_core::Unavailable;
use std::collections::VecDeque;
use std::iter;
use std::task::{Context, Poll, Waker};

/// Two for each waiting record: a future can return with another waker.
const WAITING_MAX: usize = 2 * RING_RECORDS;
/// Maximum separate spans of lost records; beyond it, the oldest two are merged.
const LOST_MAX: usize = 1024;

pub(crate) struct Tickets {
    /// All up to here are on disk, or lost.
    settled: AtomicU64,
    /// The settled number that the lane has seen.
    seen: AtomicU64,
    waiting: ArrayQueue<(u64, Waker)>,
    /// The last lost record; a query for a later one takes no lock.
    last_lost: AtomicU64,
    any_orphans: AtomicBool,
    losses: Mutex<Losses>,
}

/// Lost and orphaned records.
#[derive(Default)]
struct Losses {
    lost: VecDeque<Lost>,
    /// Unsettled records without a waiting caller. Bounded by the records in flight.
    orphans: Vec<u64>,
}

/// A span of records that did not reach the disk: first and last.
#[derive(Clone, Copy)]
struct Lost {
    first: u64,
    last: u64,
    why: Unavailable,
}

impl Default for Tickets {
    fn default() -> Tickets {
        Tickets {
            settled: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            waiting: ArrayQueue::new(WAITING_MAX),
            last_lost: AtomicU64::new(0),
            any_orphans: AtomicBool::new(false),
            losses: Mutex::new(Losses::default()),
        }
    }
}

/// The writer's side.
impl Tickets {
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// All up to `last` are on disk.
    pub(crate) fn keep(&self, last: u64) {
        if last > self.settled() {
            self.settle(last);
        }
        if self.any_orphans.load(Ordering::Relaxed) {
            self.forget_orphans(&mut self.losses(), last);
        }
    }

    fn forget_orphans(&self, losses: &mut Losses, last: u64) {
        losses.orphans.retain(|ticket| *ticket > last);
        self.any_orphans.store(!losses.orphans.is_empty(), Ordering::Relaxed);
    }

    /// Marks all unsettled ones up to `last` as lost. Returns how many were orphans.
    #[must_use]
    pub(crate) fn lose(&self, last: u64, why: Unavailable) -> u64 {
        let first = self.settled() + 1;
        if last < first {
            return 0;
        }
        let mut losses = self.losses();
        let orphans = losses.orphans.iter().filter(|ticket| (first..=last).contains(ticket)).count();
        self.forget_orphans(&mut losses, last);
        let lost = &mut losses.lost;
        match lost.back_mut() {
            Some(before) if before.last + 1 == first && before.why == why => before.last = last,
            _ => lost.push_back(Lost { first, last, why }),
        }
        if lost.len() > LOST_MAX {
            // The merged span includes durable records; their callers were notified long before.
            let oldest = lost.pop_front().map(|lost| lost.first);
            if let (Some(first), Some(next)) = (oldest, lost.front_mut()) {
                next.first = first;
            }
        }
        self.last_lost.store(last, Ordering::Release);
        // Under the lock: an orphan is either counted here or sees that it is lost.
        self.settled.store(last, Ordering::Release);
        drop(losses);
        self.settle(last);
        orphans as u64
    }

    fn settle(&self, last: u64) {
        self.settled.store(last, Ordering::Release);
        // A future that started to wait before sees the new number, or is seen here.
        fence(Ordering::SeqCst);
        self.wake_one();
    }

    /// Callers wait and the lane has not seen the progress: the woken future may be gone.
    pub(crate) fn unseen(&self) -> bool {
        self.seen.load(Ordering::Acquire) != self.settled() && !self.waiting.is_empty()
    }

    pub(crate) fn wake_one(&self) {
        if let Some((_, waker)) = self.waiting.pop() {
            waker.wake();
        }
    }
}

impl Tickets {
    fn losses(&self) -> MutexGuard<'_, Losses> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Losses {
    /// The result of a settled ticket.
    fn of(&self, ticket: u64) -> Result<(), Unavailable> {
        let found = self.lost.iter().rev().find(|lost| (lost.first..=lost.last).contains(&ticket));
        found.map_or(Ok(()), |lost| Err(lost.why))
    }
}

/// The lane's side.
impl Tickets {
    pub(crate) fn poll(&self, ticket: u64, context: &mut Context<'_>) -> Poll<Result<(), Unavailable>> {
        self.wake_others(ticket);
        if let Some(settled) = self.state(ticket) {
            return Poll::Ready(settled);
        }
        if let Err(waits) = self.waiting.push((ticket, context.waker().clone())) {
            self.drop_stale_wakers(waits);
        }
        fence(Ordering::SeqCst);
        self.wake_others(ticket);
        self.state(ticket).map_or(Poll::Pending, Poll::Ready)
    }

    /// Removes duplicate wakers of futures that were polled repeatedly: their last waker counts.
    fn drop_stale_wakers(&self, newest: (u64, Waker)) {
        let mut all: Vec<_> =
            iter::from_fn(|| self.waiting.pop()).take(WAITING_MAX).chain([newest]).collect();
        all.reverse();
        all.sort_by_key(|(ticket, _)| *ticket);
        all.dedup_by_key(|(ticket, _)| *ticket);
        for (ticket, waker) in all {
            if let Err((_, waker)) = self.waiting.push((ticket, waker)) {
                // More wait than can have been offered; let it poll again.
                waker.wake();
            }
        }
    }

    fn state(&self, ticket: u64) -> Option<Result<(), Unavailable>> {
        if self.settled.load(Ordering::Acquire) < ticket {
            return None;
        }
        if ticket > self.last_lost.load(Ordering::Acquire) {
            return Some(Ok(()));
        }
        Some(self.losses().of(ticket))
    }

    /// The caller no longer waits; if the record is lost, the writer counts it. Error: already lost.
    pub(crate) fn orphan(&self, ticket: u64) -> Result<(), Unavailable> {
        let mut losses = self.losses();
        if self.settled.load(Ordering::Acquire) >= ticket {
            return losses.of(ticket);
        }
        losses.orphans.push(ticket);
        self.any_orphans.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Wakes all settled ones except the caller.
    fn wake_others(&self, asks: u64) {
        loop {
            let settled = self.settled.load(Ordering::Acquire);
            if self.seen.load(Ordering::Relaxed) == settled {
                return;
            }
            for _ in 0..self.waiting.len() {
                match self.waiting.pop() {
                    Some((ticket, waker)) if ticket <= settled => {
                        if ticket != asks {
                            waker.wake();
                        }
                    }
                    Some(waits) => {
                        // Its slot was just freed.
                        let _ = self.waiting.push(waits);
                    }
                    None => break,
                }
            }
            self.seen.store(settled, Ordering::Release);
            // The writer may have looked for a waker while the last one was held here.
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests;
