//! The shared state of one thread's connections: the next request, its deadline, and the tally.
//!
//! Local to that thread; only `Control` is shared with others.

use crate::control::{Control, EndedEarly};
use crate::expect::Verified;
use crate::payloads::{Payloads, Row};
use crate::plan::Target;
use crate::queue::Queue;
use crate::tally::{Ending, Origin, Problem, Tally, Times};
use crate::timetable::{Due, Timetable};
use crate::warmup::{Window, WindowTally};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// A server with nothing but connection failures for this long is gone.
const GONE_AFTER: Duration = Duration::from_secs(2);

/// One request to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// Its number in the whole run, which is its id.
    pub(crate) sequence: u64,
    pub(crate) due: Instant,
    /// A connection was free when it was due.
    pub(crate) prompt: bool,
}

/// One of the threads that share a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) index: usize,
    pub(crate) threads: usize,
}

impl Share {
    /// This thread's part of a count.
    pub(crate) fn of(self, count: usize) -> usize {
        count / self.threads + usize::from(self.index < count % self.threads)
    }
}

pub(crate) struct Session {
    pub(crate) target: Arc<Target>,
    payloads: Arc<Payloads>,
    verified: Vec<Verified>,
    control: Arc<Control>,
    source: Source,
    queue: RefCell<Queue>,
    /// Requests due before this are warm-up; none during it.
    measured_from: Cell<Option<Instant>>,
    tally: RefCell<Tally>,
    window: RefCell<WindowTally>,
    /// Requests taken and ended, and idle time.
    steps: Cell<u64>,
    spun: Cell<Duration>,
    /// Since when every request ended in a connection failure.
    failing_since: Cell<Option<Instant>>,
}

/// The source of requests.
pub(crate) enum Source {
    /// Closed loop: a free connection takes the next number, then the one after `step`.
    Free { next: Cell<u64>, step: u64 },
    /// Open loop.
    Timetable(Box<RefCell<Timetable>>),
}

impl Session {
    pub(crate) fn new(
        target: Arc<Target>,
        payloads: Arc<Payloads>,
        control: Arc<Control>,
        source: Source,
        queue: Queue,
        tally: Tally,
    ) -> Session {
        Session {
            target,
            verified: (0..payloads.len()).map(|_| Verified::default()).collect(),
            payloads,
            control,
            source,
            queue: RefCell::new(queue),
            measured_from: Cell::new(None),
            tally: RefCell::new(tally),
            window: RefCell::new(WindowTally::new()),
            steps: Cell::new(0),
            spun: Cell::default(),
            failing_since: Cell::new(None),
        }
    }

    pub(crate) fn row(&self, sequence: u64) -> &Row {
        self.payloads.row(sequence)
    }

    /// This thread's known correct responses to the same row.
    pub(crate) fn verified(&self, sequence: u64) -> &Verified {
        &self.verified[self.payloads.place(sequence)]
    }

    /// The next request for the connection in this slot; `None` once there is nothing more to send.
    pub(crate) async fn next(&self, seat: usize) -> Option<Ticket> {
        let ticket = self.take(seat).await;
        self.steps.set(self.steps.get() + 1);
        ticket
    }

    async fn take(&self, seat: usize) -> Option<Ticket> {
        match &self.source {
            Source::Free { next, step } => {
                let sequence = next.get();
                next.set(sequence + step);
                let open = !self.queue.borrow().is_closed();
                open.then(|| Ticket { sequence, due: Instant::now(), prompt: true })
            }
            Source::Timetable(_) => poll_fn(|context| self.queue.borrow_mut().poll(seat, context)).await,
        }
    }

    /// Offers everything that is due and returns when to check again; `None` once all was offered.
    pub(crate) fn offer_due(&self, now: Instant) -> Option<Instant> {
        let Source::Timetable(table) = &self.source else { return None };
        // Else a run that ends early would go on for as long as its last requests take turns to end.
        if self.is_closed() {
            return None;
        }
        let mut table = table.borrow_mut();
        while let Some(Due { sequence, at }) = table.take_due(now) {
            let full = self.queue.borrow_mut().offer(sequence, at);
            if let Err(ticket) = full {
                self.count(ticket, None, now, Ending::Unsent("generator backlog full"));
            }
        }
        table.next_at()
    }

    /// Measuring starts at this future time.
    pub(crate) fn begin(&self, from: Instant) {
        self.measured_from.set(Some(from));
        if let Source::Timetable(table) = &self.source {
            table.borrow_mut().begin(from);
        }
    }

    /// Changes with every request that is taken or ends.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.get()
    }

    pub(crate) fn add_spun(&self, time: Duration) {
        self.spun.set(self.spun.get() + time);
    }

    /// Time in which the thread ran without work.
    pub(crate) fn spun(&self) -> Duration {
        self.spun.get()
    }

    pub(crate) fn take_window(&self) -> Window {
        self.window.borrow_mut().take()
    }

    /// Stops sending: nothing new becomes due, queued requests may still go.
    pub(crate) fn close(&self) {
        self.queue.borrow_mut().close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.queue.borrow().is_closed()
    }

    /// A request that waited too long for a connection.
    pub(crate) fn give_up(&self, ticket: Ticket, now: Instant) {
        self.count(ticket, None, now, Ending::Unsent("no connection was free in time"));
    }

    /// Gives up on queued requests.
    pub(crate) fn abandon_backlog(&self) {
        let now = Instant::now();
        let left = self.queue.borrow_mut().take_backlog();
        for ticket in left {
            self.count(ticket, None, now, Ending::Unsent("not sent before the run ended"));
        }
    }

    /// A request has ended. Offers what became due meanwhile: at high rates that saves the timer's wake-up.
    pub(crate) fn finish(&self, ticket: Ticket, left: Instant, ended: Instant, ending: Ending) {
        self.steps.set(self.steps.get() + 1);
        self.count(ticket, Some(left), ended, ending);
        self.offer_due(ended);
    }

    pub(crate) fn into_tally(self) -> Tally {
        self.tally.into_inner()
    }

    fn count(&self, ticket: Ticket, left: Option<Instant>, ended: Instant, ending: Ending) {
        self.control.ended_requests.fetch_add(1, Ordering::Relaxed);
        self.watch_server(ended, &ending);
        match self.measured_from.get() {
            Some(from) if ticket.due >= from => {
                let times = Times { due: ticket.due, left, ended, prompt: ticket.prompt };
                self.tally.borrow_mut().record(from, times, ending);
            }
            Some(_) => {}
            None => {
                if matches!(ending, Ending::Answered) {
                    self.window.borrow_mut().record(ended.saturating_duration_since(ticket.due));
                }
            }
        }
    }

    fn watch_server(&self, ended: Instant, ending: &Ending) {
        match ending {
            Ending::Failed(problem) if problem.origin != Origin::Server => self.watch_failure(ended, problem),
            // Not evidence about the server.
            Ending::Unsent(_) => {}
            _ => self.failing_since.set(None),
        }
    }

    fn watch_failure(&self, ended: Instant, problem: &Problem) {
        let since = self.failing_since.get().unwrap_or(ended);
        self.failing_since.set(Some(since));
        if ended.saturating_duration_since(since) >= GONE_AFTER {
            self.control.end(EndedEarly::ServerGone { since, problem: problem.words() });
        }
    }
}
