//! What `crates/journal/src/sync.rs` has, by loom.

use std::time::Duration;

pub(crate) use crate::queue::ArrayQueue;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use loom::thread::{Thread, current};
pub(crate) use std::sync::{OnceLock, PoisonError};

/// Has no end of its own: where a wake-up is lost, loom finds that nobody goes on.
pub(crate) fn park_timeout(_at_most: Duration) {
    loom::thread::park();
}
