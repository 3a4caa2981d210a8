//! The watchdog stops runs at their time limit, so that none blocks its lane.
//!
//! ONNX Runtime checks for a stop between two operators, so an endless operator cannot be stopped: its lane is lost until it
//! ends, other lanes take over its jobs, and the model never runs on a lane again.

use crate::loaded::Watched;
use flyball_core::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The interval of checks, and so the maximum delay of a stop.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A run that goes on this long after a stop was requested is stuck inside one operator.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// The current run of each lane.
pub(crate) struct Runs {
    lanes: Vec<Mutex<Option<Running>>>,
    /// Lanes whose run is past its time limit.
    overdue: Vec<AtomicBool>,
    /// Lanes whose run cannot be stopped.
    lost: Vec<AtomicBool>,
}

struct Running {
    model: Arc<str>,
    until: Nanos,
    watched: Arc<Watched>,
    asked: bool,
    reported: bool,
}

impl Runs {
    pub(crate) fn new(lanes: usize) -> Runs {
        let flags = || (0..lanes).map(|_| AtomicBool::new(false)).collect();
        Runs { lanes: (0..lanes).map(|_| Mutex::new(None)).collect(), overdue: flags(), lost: flags() }
    }

    pub(crate) fn overdue(&self, lane: usize) -> bool {
        self.overdue[lane].load(Ordering::Relaxed)
    }

    pub(crate) fn lost(&self, lane: usize) -> bool {
        self.lost[lane].load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, lane: usize, model: &Arc<str>, watched: &Arc<Watched>, until: Nanos) {
        let running = Running {
            model: Arc::clone(model),
            until,
            watched: Arc::clone(watched),
            asked: false,
            reported: false,
        };
        self.set(lane, Some(running));
    }

    /// Ends a run. From here on nothing is stopped on this lane: a stop meant for one run never hits the next.
    pub(crate) fn end(&self, lane: usize) {
        self.set(lane, None);
    }

    fn set(&self, lane: usize, running: Option<Running>) {
        self.overdue[lane].store(false, Ordering::Relaxed);
        self.lost[lane].store(false, Ordering::Relaxed);
        *self.lanes[lane].lock().unwrap_or_else(PoisonError::into_inner) = running;
    }

    /// Stops all runs, because the server leaves or memory is full.
    pub(crate) fn stop_all(&self) {
        for slot in &self.lanes {
            if let Some(running) = slot.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                (running.watched.stop)();
            }
        }
    }

    /// Stops overdue runs.
    pub(crate) fn look(&self, now: Nanos) {
        for (lane, slot) in self.lanes.iter().enumerate() {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(running) = slot.as_mut().filter(|running| running.until <= now) else { continue };
            // At every check: a stop before a run begins has no effect, and this run may only be beginning.
            (running.watched.stop)();
            self.overdue[lane].store(true, Ordering::Relaxed);
            if !running.asked {
                running.asked = true;
                tracing::warn!(lane, model = &*running.model, "a run took too long and is being stopped");
            } else if !running.reported && running.until.after(STUCK_AFTER) <= now {
                running.reported = true;
                // Before the lane counts as lost: then nothing waits for this model's session.
                running.watched.conduct.move_away();
                self.lost[lane].store(true, Ordering::Relaxed);
                tracing::error!(
                    lane,
                    model = &*running.model,
                    "a run does not stop inside one of its operators; its lane is lost until it ends, and the model runs in a \
                     model host from now on"
                );
            }
        }
    }
}

/// The watchdog's thread; dropping it ends and joins the thread.
pub struct Watchdog {
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
    use flyball_engine::StopRun;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_run_is_stopped_after_its_time_and_never_after_its_end() {
        let stops = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&stops);
        let stop: StopRun = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let stop = Arc::new(Watched { stop, conduct: Arc::default() });
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

    #[test]
    fn a_run_that_cannot_be_stopped_loses_its_lane_until_it_ends_and_moves_its_model_for_good() {
        let watched = Arc::new(Watched { stop: Arc::new(|| {}), conduct: Arc::default() });
        let runs = Runs::new(2);
        runs.begin(0, &"m".into(), &watched, Nanos(100));
        let stuck = Nanos(100).after(STUCK_AFTER);
        runs.look(Nanos(100));
        runs.look(Nanos(stuck.0 - 1));
        assert!(!runs.lost(0) && !watched.conduct.moved());
        runs.look(stuck);
        assert!(runs.lost(0) && !runs.lost(1) && watched.conduct.moved());
        runs.end(0);
        assert!(!runs.lost(0) && watched.conduct.moved());
    }
}
