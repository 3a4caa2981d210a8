//! A run as its threads and its owner see it together: how far it is, when measuring began, and whether it has to end.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) ended_requests: AtomicU64,
    threads_left: AtomicUsize,
    course: watch::Sender<Course>,
}

/// What all threads must agree on; each part is set once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    pub(crate) measured_from: Option<Instant>,
    pub(crate) ended: Option<EndedEarly>,
}

#[derive(Clone, Debug)]
pub(crate) enum EndedEarly {
    Stopped,
    /// Since when nothing but connection failures came, and the last of them.
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
            course: watch::Sender::default(),
        }
    }

    pub(crate) fn begin(&self, measured_from: Instant) {
        self.course.send_modify(|course| course.measured_from = Some(measured_from));
    }

    /// Ends the run; the first reason stays.
    pub(crate) fn end(&self, reason: EndedEarly) {
        self.course.send_if_modified(|course| {
            let first = course.ended.is_none();
            if first {
                course.ended = Some(reason);
            }
            first
        });
    }

    /// When measuring begins; `None` when the run has to end before.
    pub(crate) async fn measured_from(&self) -> Option<Instant> {
        let mut watched = self.course.subscribe();
        let known = |course: &Course| course.measured_from.is_some() || course.ended.is_some();
        // The sender lives as long as this borrow of it.
        let course = watched.wait_for(known).await.ok()?;
        course.measured_from
    }

    /// Waits until the run has to end.
    pub(crate) async fn ended(&self) {
        let mut watched = self.course.subscribe();
        let _ = watched.wait_for(|course| course.ended.is_some()).await;
    }

    pub(crate) fn course(&self) -> Course {
        self.course.borrow().clone()
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
