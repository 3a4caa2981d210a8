//! The writer's sleep. Data stored before `wake` is seen before the writer sleeps, or wakes it.
//!
//! Knows no records: the writer says what it would miss.

use crate::sync::{AtomicBool, AtomicU8, OnceLock, Ordering, Thread, current, fence, park_timeout};
use std::time::Duration;

const AWAKE: u8 = 0;
/// Wakes up within milliseconds on its own.
const NAPS: u8 = 1;
const SLEEPS: u8 = 2;

#[derive(Default)]
pub(crate) struct WriterSleep {
    writer: OnceLock<Thread>,
    state: AtomicU8,
    /// A caller waits for a record in a ring.
    urgent: AtomicBool,
}

impl WriterSleep {
    /// `urgent` wakes it at once, not only from a deep sleep.
    pub(crate) fn wake(&self, urgent: bool) {
        if urgent {
            // By a swap: the round that clears the mark then sees the records of every lane that set it.
            self.urgent.swap(true, Ordering::Release);
        }
        fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed);
        if (state == SLEEPS || (urgent && state == NAPS))
            && self.state.swap(AWAKE, Ordering::Relaxed) != AWAKE
            && let Some(writer) = self.writer.get()
        {
            writer.unpark();
        }
    }

    /// Declares this thread the writer.
    pub(crate) fn write_here(&self) {
        let _ = self.writer.set(current());
    }

    /// The following round handles everything that is urgent now.
    pub(crate) fn begin_round(&self) {
        self.urgent.swap(false, Ordering::Acquire);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn nap(&self, at_most: Duration) {
        self.rest(NAPS, at_most, || false);
    }

    /// Sleeps until a wake-up, unless there is something to do.
    pub(crate) fn sleep(&self, at_most: Duration, something: impl FnOnce() -> bool) {
        self.rest(SLEEPS, at_most, something);
    }

    fn rest(&self, how: u8, at_most: Duration, something: impl FnOnce() -> bool) {
        self.state.store(how, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.urgent.load(Ordering::Relaxed) && !something() {
            park_timeout(at_most);
        }
        self.state.store(AWAKE, Ordering::Relaxed);
    }
}
