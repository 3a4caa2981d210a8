//! Memory as models take it: whether another one fits, and giving back what a load or a removed model leaves. glibc keeps
//! freed memory for later; after a load that is the parsed protobuf and the probing session, which nobody needs again.

use crate::Refusal;
use rustix::param::page_size;

/// What the process may have resident at most. A load that would exceed it is refused: otherwise the kernel ends the
/// process, and with it the models that were served.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBudget {
    pub bytes_max: u64,
}

/// While a session is made, the file's bytes, the parsed model and the session's own weights are in memory together.
const LOAD_TAKES: u64 = 3;
/// More sessions of one model than these bytes are not made, however much memory there is: they would push each other out
/// of the caches.
const SESSIONS_BYTES_MAX: u64 = 512 << 20;

impl MemoryBudget {
    pub const UNLIMITED: MemoryBudget = MemoryBudget { bytes_max: u64::MAX };

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

/// What the process has resident now; zero where the kernel does not say.
pub fn resident_bytes() -> u64 {
    let pages = |text: String| text.split(' ').nth(1)?.parse::<u64>().ok();
    std::fs::read_to_string("/proc/self/statm").ok().and_then(pages).unwrap_or(0) * page_size() as u64
}

/// Returns free heap pages to the system, where the allocator can. Takes milliseconds: never call it on a lane.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes any padding, touches only the allocator's own free memory, and is thread-safe.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_would_exceed_the_budget_is_refused_and_a_smaller_one_is_not() {
        let budget = MemoryBudget { bytes_max: resident_bytes() + (100 << 20) };
        assert!(budget.room_for(1 << 20).is_ok());
        assert!(matches!(budget.room_for(90 << 20), Err(Refusal::OutOfMemory { .. })));
    }

    #[test]
    fn sessions_are_made_while_there_is_memory_for_them() {
        let budget = MemoryBudget { bytes_max: resident_bytes() + (100 << 20) };
        assert!((1..=3).contains(&budget.sessions(10 << 20, 30 << 20)));
        assert_eq!(budget.sessions(10 << 20, 1 << 40), 0);
        assert_eq!(MemoryBudget::UNLIMITED.sessions(256 << 20, 300 << 20), 2);
    }
}
