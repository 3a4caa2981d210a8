//! What the connections of one run share: which request is next, until when, and where its end is counted. Lives on
//! the generator's one thread; only `Control` is seen by others.

use crate::payloads::Payloads;
use crate::plan::{Mode, Target};
use crate::tally::{Ending, Problem, Tally};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

/// Requests that may wait for a connection. A server that stalls for half a second at 100,000/s stays within it.
pub(crate) const BACKLOG_MAX: usize = 65_536;

/// The run as other threads see it.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) ended_requests: AtomicU64,
    pub(crate) finished: AtomicBool,
    stop: Notify,
}

impl Control {
    pub(crate) fn stop(&self) {
        // Kept until it is awaited, so that a stop before the run looks is not lost.
        self.stop.notify_one();
    }

    pub(crate) async fn stopped(&self) {
        self.stop.notified().await;
    }
}

/// One request to be sent: its number, which is its id, and when it is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) sequence: u64,
    pub(crate) due: Instant,
}

pub(crate) struct Session {
    pub(crate) target: Target,
    pub(crate) payloads: Payloads,
    control: Arc<Control>,
    /// Requests due before this are warm-up.
    measured_from: Instant,
    mode: Mode,
    next_sequence: Cell<u64>,
    tally: RefCell<Tally>,
    backlog: RefCell<VecDeque<Ticket>>,
    arrival: Notify,
    closed: Cell<bool>,
}

impl Session {
    pub(crate) fn new(
        target: Target,
        payloads: Payloads,
        control: Arc<Control>,
        mode: Mode,
        measured_from: Instant,
    ) -> Session {
        Session {
            target,
            payloads,
            control,
            measured_from,
            mode,
            next_sequence: Cell::new(0),
            tally: RefCell::new(Tally::new()),
            backlog: RefCell::default(),
            arrival: Notify::new(),
            closed: Cell::new(false),
        }
    }

    /// The next request for a connection that is free; `None` once there is nothing more to send.
    pub(crate) async fn next(&self) -> Option<Ticket> {
        if self.mode == Mode::Closed {
            return (!self.closed.get()).then(|| self.ticket(Instant::now()));
        }
        loop {
            let arrival = self.arrival.notified();
            if let Some(ticket) = self.backlog.borrow_mut().pop_front() {
                return Some(ticket);
            }
            if self.closed.get() {
                return None;
            }
            arrival.await;
        }
    }

    /// Open loop: a request is due. It waits here for a connection; without room it has failed.
    pub(crate) fn offer(&self, due: Instant) {
        let ticket = self.ticket(due);
        if self.backlog.borrow().len() < BACKLOG_MAX {
            self.backlog.borrow_mut().push_back(ticket);
            self.arrival.notify_one();
        } else {
            self.unsent(ticket, "generator backlog full");
        }
    }

    /// Ends the sending: nothing new becomes due, what waits may still go.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.arrival.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Gives up on what still waits.
    pub(crate) fn abandon_backlog(&self) {
        let left = std::mem::take(&mut *self.backlog.borrow_mut());
        for ticket in left {
            self.unsent(ticket, "not sent before the run ended");
        }
    }

    pub(crate) fn finish(&self, ticket: Ticket, left: Instant, ended: Instant, ending: Ending) {
        self.count(ticket, Some(left), ended, ending);
    }

    /// What was counted; counting starts anew.
    pub(crate) fn take_tally(&self) -> Tally {
        self.tally.replace(Tally::new())
    }

    fn ticket(&self, due: Instant) -> Ticket {
        let sequence = self.next_sequence.get();
        self.next_sequence.set(sequence + 1);
        Ticket { sequence, due }
    }

    fn unsent(&self, ticket: Ticket, reason: &'static str) {
        self.count(ticket, None, Instant::now(), Ending::Failed(Problem::new(reason, "")));
    }

    fn count(&self, ticket: Ticket, left: Option<Instant>, ended: Instant, ending: Ending) {
        self.control.ended_requests.fetch_add(1, Ordering::Relaxed);
        if ticket.due >= self.measured_from {
            self.tally.borrow_mut().record(ticket.due, left, ended, ending);
        }
    }
}
