//! The memory watch: while the process is over its budget, runs are stopped and refused, because not all memory of a run is
//! counted. Free memory is returned to the system after large runs. Runs on a thread that is not a lane.

use crate::Plane;
use flyball_core::{Fault, FaultKind, Nanos, Stage};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How long after a large run memory is returned: the next large run would reuse it.
const IDLE: Duration = Duration::from_millis(500);
/// The last wait: after a large run memory is returned repeatedly, each time after twice the wait, because its answer may
/// take long to be sent.
const LAST_WAIT: Duration = Duration::from_secs(16);
/// Minimum interval of returning memory while over budget.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Growth of resident memory since the last return that triggers another.
const GROWN_BYTES: u64 = 64 << 20;
/// Minimum interval of returning memory after growth, which may all be in use.
const GROWN_AFTER: Duration = Duration::from_secs(5);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Whether the process exceeds its memory budget.
#[derive(Default)]
pub(crate) struct Pressure(AtomicBool);

impl Pressure {
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The state of the memory watch between two checks.
#[derive(Default)]
pub struct MemoryLooks {
    /// After a large run: when memory is returned next, and the wait until then.
    due: Option<(Nanos, Duration)>,
    given_back: Option<Nanos>,
    /// Resident bytes after the last return.
    left_bytes: u64,
}

impl<M> Plane<M> {
    /// Checks memory once. Call it often, from a thread that is not a lane.
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
        "the server would exceed its memory limit of {} MiB (memory_bytes_max); try again shortly, or raise the limit",
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
