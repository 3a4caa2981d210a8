//! The shared state of a run: its phase, the start of measuring, and early stops.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) ended_requests: AtomicU64,
    threads_left: AtomicUsize,
    course: watch::Sender<RunState>,
}

/// What all threads must agree on; each part is set once.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunState {
    /// Threads that still open their connections.
    opening: usize,
    pub(crate) measured_from: Option<Instant>,
    pub(crate) ended: Option<EndedEarly>,
}

/// The phase of a run, for observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Warming,
    /// The start of measuring is set, but not reached yet.
    Beginning,
    /// Until the last request that was due in the measured time ends.
    Measuring,
    Ended,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Warming => "warming",
            Phase::Beginning => "beginning",
            Phase::Measuring => "measuring",
            Phase::Ended => "ended",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum EndedEarly {
    Stopped,
    /// Since when only connection failures occurred, and the last of them.
    ServerGone {
        since: Instant,
        problem: String,
    },
}

impl Control {
    pub(crate) fn new(threads: usize) -> Control {
        Control {
            ended_requests: AtomicU64::new(0),
            threads_left: AtomicUsize::new(threads),
            course: watch::Sender::new(RunState { opening: threads, ..RunState::default() }),
        }
    }

    /// One thread has its connections; waits until all have, or the run ends.
    pub(crate) async fn opened(&self) {
        self.course.send_modify(|course| course.opening -= 1);
        let mut watched = self.course.subscribe();
        let _ = watched.wait_for(|course| course.opening == 0 || course.ended.is_some()).await;
    }

    pub(crate) fn begin(&self, measured_from: Instant) {
        self.course.send_modify(|course| course.measured_from = Some(measured_from));
    }

    /// Ends the run; the first reason is kept.
    pub(crate) fn end(&self, reason: EndedEarly) {
        self.course.send_if_modified(|course| {
            let first = course.ended.is_none();
            if first {
                course.ended = Some(reason);
            }
            first
        });
    }

    /// The start of measuring; `None` if the run ends before.
    pub(crate) async fn measured_from(&self) -> Option<Instant> {
        let mut watched = self.course.subscribe();
        let known = |course: &RunState| course.measured_from.is_some() || course.ended.is_some();
        // The sender outlives this borrow.
        let course = watched.wait_for(known).await.ok()?;
        course.measured_from
    }

    /// Waits until the run ends early.
    pub(crate) async fn ended(&self) {
        let mut watched = self.course.subscribe();
        let _ = watched.wait_for(|course| course.ended.is_some()).await;
    }

    pub(crate) fn course(&self) -> RunState {
        self.course.borrow().clone()
    }

    /// The current phase; a run without warm-up starts at once.
    pub(crate) fn phase(&self, warms_up: bool, now: Instant) -> Phase {
        match self.course.borrow().measured_from {
            _ if self.finished() => Phase::Ended,
            None if warms_up => Phase::Warming,
            Some(from) if from <= now => Phase::Measuring,
            _ => Phase::Beginning,
        }
    }

    pub(crate) fn thread_ends(&self) {
        self.threads_left.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn finished(&self) -> bool {
        self.threads_left.load(Ordering::Acquire) == 0
    }
}

impl EndedEarly {
    pub(crate) fn words(&self, measured_from: Option<Instant>) -> String {
        match (self, measured_from) {
            (EndedEarly::Stopped, _) => "stopped".into(),
            (EndedEarly::ServerGone { since, problem }, Some(from)) if *since >= from => {
                let after_s = since.duration_since(from).as_secs_f64();
                format!("the server stopped answering after {after_s:.1} s: {problem}")
            }
            (EndedEarly::ServerGone { problem, .. }, _) => {
                format!("the server did not answer in the warm-up: {problem}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_run_warms_up_begins_measures_and_ends() {
        for (warms_up, first) in [(true, Phase::Warming), (false, Phase::Beginning)] {
            let (control, now) = (Control::new(1), Instant::now());
            let from = now + Duration::from_millis(60);
            assert_eq!(control.phase(warms_up, now), first);
            control.begin(from);
            assert_eq!(control.phase(warms_up, now), Phase::Beginning);
            assert_eq!(control.phase(warms_up, from), Phase::Measuring);
            control.thread_ends();
            assert_eq!(control.phase(warms_up, from), Phase::Ended);
        }
    }

    #[tokio::test]
    async fn nobody_begins_before_all_have_their_connections_unless_the_run_has_to_end() {
        use std::future::{Future, poll_fn};
        use std::pin::pin;
        use std::task::Poll;
        for ends in [false, true] {
            let control = Control::new(2);
            let mut first = pin!(control.opened());
            let waits = poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending())).await;
            assert!(waits);
            if ends {
                control.end(EndedEarly::Stopped);
            } else {
                control.opened().await;
            }
            first.await;
        }
    }
}
