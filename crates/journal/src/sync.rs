//! The atomics, locks and queue that lanes and the writer share.
//!
//! The models in `loom/` compile the same files with another `sync`, whose threads loom runs in every order.

pub(crate) use crossbeam_queue::ArrayQueue;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
pub(crate) use std::thread::{Thread, current, park_timeout};
