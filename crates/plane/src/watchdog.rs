//! A run that does not end must not hold its lane: it is asked to stop once its time is up. ONNX Runtime looks for that
//! between two operators, so an operator that runs on and on cannot be stopped; such a lane is reported.

use crate::loaded::StopRun;
use flyball_core::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the lanes are looked at; a run is stopped that much late at most.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A run that goes on for so long after it was asked to stop is stuck inside one operator.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// What each lane is running, for the watchdog to see.
pub(crate) struct Runs {
    lanes: Vec<Mutex<Option<Running>>>,
    /// Lanes whose run should be over.
    overdue: Vec<AtomicBool>,
}

struct Running {
    model: Arc<str>,
    until: Nanos,
    stop: StopRun,
    asked: bool,
    reported: bool,
}

impl Runs {
    pub(crate) fn new(lanes: usize) -> Runs {
        let overdue = (0..lanes).map(|_| AtomicBool::new(false)).collect();
        Runs { lanes: (0..lanes).map(|_| Mutex::new(None)).collect(), overdue }
    }

    pub(crate) fn overdue(&self, lane: usize) -> bool {
        self.overdue[lane].load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, lane: usize, model: &Arc<str>, stop: &StopRun, until: Nanos) {
        let running = Running {
            model: Arc::clone(model),
            until,
            stop: Arc::clone(stop),
            asked: false,
            reported: false,
        };
        self.set(lane, Some(running));
    }

    /// From here on nothing is stopped on this lane: a stop meant for one run never hits the next.
    pub(crate) fn end(&self, lane: usize) {
        self.set(lane, None);
    }

    fn set(&self, lane: usize, running: Option<Running>) {
        self.overdue[lane].store(false, Ordering::Relaxed);
        *self.lanes[lane].lock().unwrap_or_else(PoisonError::into_inner) = running;
    }

    /// Stops whatever runs: the server leaves.
    pub(crate) fn stop_all(&self) {
        for slot in &self.lanes {
            if let Some(running) = slot.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                (running.stop)();
            }
        }
    }

    /// Stops what is overdue.
    pub(crate) fn look(&self, now: Nanos) {
        for (lane, slot) in self.lanes.iter().enumerate() {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(running) = slot.as_mut().filter(|running| running.until <= now) else { continue };
            // Asked at every look: a run forgets what was asked before it began, and this one may only be beginning.
            (running.stop)();
            self.overdue[lane].store(true, Ordering::Relaxed);
            if !running.asked {
                running.asked = true;
                tracing::warn!(lane, model = &*running.model, "a run took too long and is being stopped");
            } else if !running.reported && running.until.after(STUCK_AFTER) <= now {
                running.reported = true;
                tracing::error!(
                    lane,
                    model = &*running.model,
                    "a run does not stop: one of its operators runs on; the lane is lost until it ends, restart the server"
                );
            }
        }
    }
}

/// Owner of the thread; dropping it ends and joins the thread.
pub(crate) struct Watchdog {
    leaving: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub(crate) fn start(look: impl Fn() + Send + 'static) -> std::io::Result<Watchdog> {
        let leaving = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&leaving);
        let watch = move || {
            while !seen.load(Ordering::Relaxed) {
                std::thread::park_timeout(LOOK_EVERY);
                look();
            }
        };
        let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(watch)?;
        Ok(Watchdog { leaving, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.leaving.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_run_is_stopped_after_its_time_and_never_after_its_end() {
        let stops = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&stops);
        let stop: StopRun = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let runs = Runs::new(2);
        runs.begin(1, &"m".into(), &stop, Nanos(100));
        runs.look(Nanos(99));
        assert_eq!(stops.load(Ordering::Relaxed), 0);
        assert!(!runs.overdue(1));
        runs.look(Nanos(100));
        assert_eq!(stops.load(Ordering::Relaxed), 1);
        assert!(runs.overdue(1) && !runs.overdue(0));
        runs.begin(1, &"m".into(), &stop, Nanos(200));
        runs.end(1);
        runs.look(Nanos(300));
        assert_eq!(stops.load(Ordering::Relaxed), 1);
    }
}
