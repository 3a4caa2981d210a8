//! Memory as models take it: whether another one fits, whether a run may have more, and giving back what a load, a large run
//! or a removed model leaves. glibc and mimalloc keep freed memory for later, which nobody may need again.

use crate::Refusal;
use rustix::param::page_size;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What the process may have resident at most, and one run of it. A load that would exceed it is refused, and a run that
/// would fails: otherwise the kernel ends the process, and with it the models that were served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    pub bytes_max: u64,
    pub run_bytes_max: u64,
}

/// While a session is made, the file's bytes, the parsed model and the session's own weights are in memory together.
const LOAD_TAKES: u64 = 3;
/// More sessions of one model than these bytes are not made, however much memory there is: they would push each other out
/// of the caches.
const SESSIONS_BYTES_MAX: u64 = 512 << 20;

impl MemoryBudget {
    pub const UNLIMITED: MemoryBudget = MemoryBudget { bytes_max: u64::MAX, run_bytes_max: u64::MAX };

    /// Whether the process may take so many bytes more. Looks at counters alone: lanes ask.
    pub fn has_room(&self, bytes: u64) -> bool {
        // What counters do not see: small blocks, sockets' buffers, page tables, and what came since the last look.
        let spare = self.bytes_max / 16;
        let used = BESIDE.load(Relaxed).saturating_add(LARGE.load(Relaxed));
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

    /// How many more sessions may be made of a model of so many bytes, whose first session took so many.
    pub(crate) fn sessions(&self, model_bytes: u64, session_bytes: u64) -> usize {
        let free = self.bytes_max.saturating_sub(resident_bytes());
        let sensible = (SESSIONS_BYTES_MAX / model_bytes.max(1)).max(1);
        let count = (free / session_bytes.max(1)).min(sensible);
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// A block of so many bytes counts as soon as it is allocated; smaller ones once the process is looked at.
pub(crate) const LARGE_BYTES: u64 = 1 << 20;
/// A run that took more leaves memory that is worth giving back.
const LARGE_RUN_BYTES: u64 = 32 << 20;

/// Bytes of the large blocks that sessions have.
static LARGE: AtomicU64 = AtomicU64::new(0);
/// What was resident beside those when the process was last looked at.
static BESIDE: AtomicU64 = AtomicU64::new(0);
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

/// A run is over that took so many bytes.
pub(crate) fn run_ended(peak_bytes: u64, succeeded: bool) {
    if peak_bytes < LARGE_RUN_BYTES {
        return;
    }
    LARGE_RUN_ENDED.store(true, Relaxed);
    if !succeeded {
        // What mimalloc keeps for this thread no other can give back. Where large runs are usual, they use it again.
        // SAFETY: as in `give_back`.
        unsafe { libmimalloc_sys::mi_collect(true) };
    }
}

/// Whether a run ended since the last call that took much memory.
pub fn large_run_ended() -> bool {
    LARGE_RUN_ENDED.swap(false, Relaxed)
}

/// Looks at the process, for `has_room`, and tells what it has resident. Reads a file: never call it on a lane.
pub fn look() -> u64 {
    let resident = resident_bytes();
    BESIDE.store(resident.saturating_sub(LARGE.load(Relaxed)), Relaxed);
    resident
}

/// What the process has resident now; zero where the kernel does not say.
pub fn resident_bytes() -> u64 {
    let pages = |text: String| text.split(' ').nth(1)?.parse::<u64>().ok();
    std::fs::read_to_string("/proc/self/statm").ok().and_then(pages).unwrap_or(0) * page_size() as u64
}

/// Makes glibc give back large blocks at once. By default it keeps up to 64 MiB at the end of each thread's heap, for good,
/// once large blocks were freed.
pub(crate) fn tune() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both change numbers of the allocator's.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 4 << 20);
    }
}

/// Returns free heap pages to the system, where the allocators can. Takes milliseconds: never call it on a lane.
pub fn give_back() {
    // SAFETY: it touches only free memory of mimalloc's, and is thread-safe.
    unsafe { libmimalloc_sys::mi_collect(true) };
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes any padding, touches only the allocator's own free memory, and is thread-safe.
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
