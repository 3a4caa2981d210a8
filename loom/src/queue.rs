//! A bounded queue with the orders of crossbeam's `ArrayQueue`, by loom's atomics.
//!
//! A queue under a lock would order more than the real one does, and hide a missing fence. Values are kept under a lock
//! that loom does not see: only their stamps order them, as in the real queue.

use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread::yield_now;
use std::sync::{Mutex, PoisonError};

/// No model puts in more; each slot is one more atomic for loom to follow.
const SLOTS_MAX: usize = 4;

pub(crate) struct ArrayQueue<T> {
    head: AtomicUsize,
    tail: AtomicUsize,
    slots: Vec<Slot<T>>,
}

struct Slot<T> {
    /// Which turn may use it: equal to the tail it is free, one more and it is full.
    stamp: AtomicUsize,
    value: Mutex<Option<T>>,
}

impl<T> Slot<T> {
    fn put(&self, value: Option<T>) -> Option<T> {
        std::mem::replace(&mut self.value.lock().unwrap_or_else(PoisonError::into_inner), value)
    }
}

/// Counters go on for ever; the place of a turn is its remainder.
impl<T> ArrayQueue<T> {
    pub(crate) fn new(capacity: usize) -> ArrayQueue<T> {
        let slot = |place| Slot { stamp: AtomicUsize::new(2 * place), value: Mutex::new(None) };
        let slots = (0..capacity.min(SLOTS_MAX)).map(slot).collect();
        ArrayQueue { head: AtomicUsize::new(0), tail: AtomicUsize::new(0), slots }
    }

    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(tail);
            let stamp = slot.stamp.load(Ordering::Acquire);
            if stamp == 2 * tail {
                match self.tail.compare_exchange_weak(tail, tail + 1, Ordering::SeqCst, Ordering::Relaxed) {
                    Ok(_) => {
                        slot.put(Some(value));
                        slot.stamp.store(2 * tail + 1, Ordering::Release);
                        return Ok(());
                    }
                    Err(newer) => tail = newer,
                }
            } else {
                if stamp < 2 * tail {
                    fence(Ordering::SeqCst);
                    if self.head.load(Ordering::Relaxed) + self.slots.len() == tail {
                        return Err(value);
                    }
                }
                yield_now();
                tail = self.tail.load(Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn pop(&self) -> Option<T> {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(head);
            let stamp = slot.stamp.load(Ordering::Acquire);
            if stamp == 2 * head + 1 {
                match self.head.compare_exchange_weak(head, head + 1, Ordering::SeqCst, Ordering::Relaxed) {
                    Ok(_) => {
                        let value = slot.put(None);
                        slot.stamp.store(2 * (head + self.slots.len()), Ordering::Release);
                        return value;
                    }
                    Err(newer) => head = newer,
                }
            } else {
                if stamp <= 2 * head {
                    fence(Ordering::SeqCst);
                    if self.tail.load(Ordering::Relaxed) == head {
                        return None;
                    }
                }
                yield_now();
                head = self.head.load(Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        loop {
            let tail = self.tail.load(Ordering::SeqCst);
            let head = self.head.load(Ordering::SeqCst);
            if self.tail.load(Ordering::SeqCst) == tail {
                return tail.saturating_sub(head);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let head = self.head.load(Ordering::SeqCst);
        self.tail.load(Ordering::SeqCst) == head
    }

    fn slot(&self, turn: usize) -> &Slot<T> {
        &self.slots[turn % self.slots.len()]
    }
}
