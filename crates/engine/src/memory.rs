//! Memory of models: whether another fits, whether a run may grow, and trimming.
//!
//! glibc and mimalloc keep memory that a load, a large run or a removed model freed, though it may never be
//! needed again.

use crate::Refusal;
use rustix::param::page_size;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The maximum resident memory of the process, and of one run.
///
/// A load that would exceed it is rejected, and such a run fails: otherwise the kernel would kill the process
/// with all its models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    pub bytes_max: u64,
    pub run_bytes_max: u64,
}

/// Loading needs the file's bytes, the parsed model and the session's weights at the same time.
const LOAD_TAKES: u64 = 3;
/// Maximum bytes of all sessions of one model: more would evict each other from the caches.
const SESSIONS_BYTES_MAX: u64 = 512 << 20;

impl MemoryBudget {
    pub const UNLIMITED: MemoryBudget = MemoryBudget { bytes_max: u64::MAX, run_bytes_max: u64::MAX };

    /// Whether the process may use this many more bytes. Reads counters only: lanes call it.
    pub fn has_room(&self, bytes: u64) -> bool {
        // Memory that counters miss: small blocks, socket buffers, page tables, and growth since the last
        // refresh.
        let spare = self.bytes_max / 16;
        let used = OTHER.load(Relaxed).saturating_add(LARGE.load(Relaxed));
        used.saturating_add(bytes) <= self.bytes_max - spare
    }

    pub(crate) fn room_for(&self, model_bytes: u64) -> Result<(), Refusal> {
        let needs = model_bytes.saturating_mul(LOAD_TAKES);
        if resident_bytes().saturating_add(needs) <= self.bytes_max {
            Ok(())
        } else {
            Err(self.refuse(needs))
        }
    }

    pub(crate) fn refuse(&self, needs: u64) -> Refusal {
        Refusal::OutOfMemory { needs, used: resident_bytes(), bytes_max: self.bytes_max }
    }

    /// How many more sessions of a model may be created, by its size and its first session's.
    pub(crate) fn sessions(&self, model_bytes: u64, session_bytes: u64) -> usize {
        let free = self.bytes_max.saturating_sub(resident_bytes());
        let sensible = (SESSIONS_BYTES_MAX / model_bytes.max(1)).max(1);
        let count = (free / session_bytes.max(1)).min(sensible);
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// Blocks of this size count immediately; smaller ones at the next refresh.
pub(crate) const LARGE_BYTES: u64 = 1 << 20;
/// A run with more leaves memory worth trimming.
const LARGE_RUN_BYTES: u64 = 32 << 20;

/// Bytes of the sessions' large blocks.
static LARGE: AtomicU64 = AtomicU64::new(0);
/// Other resident memory at the last refresh.
static OTHER: AtomicU64 = AtomicU64::new(0);
static LARGE_RUN_ENDED: AtomicBool = AtomicBool::new(false);

pub(crate) fn count_large(bytes: u64) {
    if bytes >= LARGE_BYTES {
        LARGE.fetch_add(bytes, Relaxed);
    }
}

pub(crate) fn forget_large(bytes: u64) {
    if bytes >= LARGE_BYTES {
        LARGE.fetch_sub(bytes, Relaxed);
    }
}

/// Called after a run that used this many bytes.
pub(crate) fn run_ended(peak_bytes: u64, succeeded: bool) {
    if peak_bytes < LARGE_RUN_BYTES {
        return;
    }
    LARGE_RUN_ENDED.store(true, Relaxed);
    if !succeeded {
        // Only this thread can return what mimalloc caches for it. Where large runs are usual, they reuse it.
        // SAFETY: as in `give_back`.
        unsafe { libmimalloc_sys::mi_collect(true) };
    }
}

/// Whether a run with much memory ended since the last call.
pub fn large_run_ended() -> bool {
    LARGE_RUN_ENDED.swap(false, Relaxed)
}

/// Refreshes the counters for `has_room` and returns the resident bytes. Reads a file: never call it on a
/// lane.
pub fn look() -> u64 {
    let resident = resident_bytes();
    OTHER.store(resident.saturating_sub(LARGE.load(Relaxed)), Relaxed);
    resident
}

/// The resident bytes of the process; zero if the kernel does not report them.
pub fn resident_bytes() -> u64 {
    statm_bytes(1)
}

/// A field of the kernel's `statm` in bytes; zero if the kernel does not report it.
pub(crate) fn statm_bytes(field: usize) -> u64 {
    let pages = |text: String| text.split(' ').nth(field)?.parse::<u64>().ok();
    std::fs::read_to_string("/proc/self/statm").ok().and_then(pages).unwrap_or(0) * page_size() as u64
}

/// Makes glibc return large blocks at once.
///
/// By default it keeps up to 64 MiB at the end of each thread's heap, for good, once large blocks were freed.
pub(crate) fn tune() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both change numbers of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 4 << 20);
    }
}

/// Returns free heap pages to the system. Takes milliseconds: never call it on a lane.
pub fn give_back() {
    // SAFETY: it touches only mimalloc's free memory, and is thread-safe.
    unsafe { libmimalloc_sys::mi_collect(true) };
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim accepts any padding, touches only the allocator's free memory, and is thread-safe.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(bytes_max: u64) -> MemoryBudget {
        MemoryBudget { bytes_max, ..MemoryBudget::UNLIMITED }
    }

    #[test]
    fn a_run_has_room_up_to_a_sixteenth_below_the_budget() {
        let resident = look();
        let budget = budget(resident * 2);
        assert!(budget.has_room(resident / 2));
        assert!(!budget.has_room(resident * 2));
        assert!(MemoryBudget::UNLIMITED.has_room(1 << 40));
    }

    #[test]
    fn a_load_that_would_exceed_the_budget_is_refused_and_a_smaller_one_is_not() {
        let budget = budget(resident_bytes() + (100 << 20));
        assert!(budget.room_for(1 << 20).is_ok());
        assert!(matches!(budget.room_for(90 << 20), Err(Refusal::OutOfMemory { .. })));
    }

    #[test]
    fn sessions_are_made_while_there_is_memory_for_them() {
        let budget = budget(resident_bytes() + (100 << 20));
        assert!((1..=3).contains(&budget.sessions(10 << 20, 30 << 20)));
        assert_eq!(budget.sessions(10 << 20, 1 << 40), 0);
        assert_eq!(MemoryBudget::UNLIMITED.sessions(256 << 20, 300 << 20), 2);
    }
}
