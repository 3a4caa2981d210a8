//! The process's memory as a whole, looked at beside the lanes. While it is over its budget nothing new is run, and what runs
//! is stopped: not all memory of a run is counted. What large runs leave is given back once they are over.

use crate::Plane;
use flyball_core::{Fault, FaultKind, Nanos, Stage};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How long no large run may have ended before memory is given back: who runs one after the other uses it again.
const IDLE: Duration = Duration::from_millis(500);
/// After a large run memory is given back again and again, each time after twice the time, up to this: its answer may be on
/// its way for long.
const LAST_WAIT: Duration = Duration::from_secs(16);
/// How often memory is given back at most while there is too little.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// So much more is resident than after the last time: somebody may have left it.
const GROWN_BYTES: u64 = 64 << 20;
/// How often memory is returned at most: what is in use cannot be.
const GROWN_AFTER: Duration = Duration::from_secs(5);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Whether the process has more memory than it may.
#[derive(Default)]
pub(crate) struct Pressure(AtomicBool);

impl Pressure {
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// What the memory watch remembers between two looks.
#[derive(Default)]
pub struct MemoryLooks {
    /// After a large run: when memory is given back next, and how long that was waited for.
    due: Option<(Nanos, Duration)>,
    given_back: Option<Nanos>,
    /// What was resident then.
    left_bytes: u64,
}

impl<M> Plane<M> {
    /// One look; call it often, from a thread that is no lane.
    pub fn look_at_memory(&self, looks: &mut MemoryLooks) {
        let (now, bytes_max) = (self.clock.now(), self.limits.memory.bytes_max);
        if flyball_engine::large_run_ended() {
            looks.due = Some((now.after(IDLE), IDLE));
        }
        let mut resident = flyball_engine::look();
        let after = |least: Duration| looks.given_back.is_none_or(|at| now.since(at) >= least);
        let over = resident > bytes_max && after(AGAIN_AFTER);
        let grown = resident > looks.left_bytes + GROWN_BYTES && after(GROWN_AFTER);
        let due = looks.due.filter(|(at, _)| *at <= now);
        if over || grown || due.is_some() {
            flyball_engine::give_back();
            resident = flyball_engine::look();
            (looks.given_back, looks.left_bytes) = (Some(now), resident);
        }
        if let Some((_, waited)) = due {
            let wait = waited * 2;
            looks.due = (wait <= LAST_WAIT).then(|| (now.after(wait), wait));
        }
        self.press(resident, bytes_max);
    }

    pub(crate) fn press(&self, resident: u64, bytes_max: u64) {
        let pressed = resident > bytes_max;
        if self.pressure.0.swap(pressed, Relaxed) != pressed {
            let (resident_mib, allowed_mib) = (resident >> 20, bytes_max >> 20);
            if pressed {
                tracing::warn!(resident_mib, allowed_mib, "memory is full: runs are stopped and refused");
            } else {
                tracing::info!(resident_mib, allowed_mib, "memory is free again: models run");
            }
        }
        if pressed {
            self.runs.stop_all();
        }
    }
}

pub(crate) fn memory_full(stage: Stage, bytes_max: u64) -> Fault {
    let text = format!(
        "the server would have more than {} MiB in memory, its limit (memory_bytes_max); try again shortly, or give it \
         more",
        bytes_max >> 20
    );
    Fault::new(FaultKind::MemoryFull, stage, text).retry_after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use crate::testing::lanes;

    #[test]
    fn pressure_is_on_while_more_is_resident_than_allowed() {
        let lanes = lanes(1);
        let plane = &lanes[0].0.plane;
        assert!(!plane.pressure.is_on());
        plane.press(11, 10);
        assert!(plane.pressure.is_on());
        plane.press(10, 10);
        assert!(!plane.pressure.is_on());
    }
}
