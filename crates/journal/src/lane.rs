//! A lane's interface to the journal. Runs on the lane's thread and never waits.
//!
//! It makes no system call except to wake a sleeping writer. It takes a lock, for a few comparisons, only for
//! losses and orphans.

use crate::ring::{RING_BYTES_MAX, RING_ENTRIES};
use crate::shared::{Lane, Shared};
use flyball_core::{Entry, LaneRecorder, Ticket, Unkept};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// The ticket of a record without a slot: none was reserved, or the journal is closed.
const NO_PLACE: Ticket = Ticket(u64::MAX);

pub(crate) struct JournalLane {
    shared: Arc<Shared>,
    lane: usize,
    /// Reserved slots that are not used yet.
    held: Cell<usize>,
}

impl JournalLane {
    pub(crate) fn new(shared: Arc<Shared>, lane: usize) -> JournalLane {
        JournalLane { shared, lane, held: Cell::new(0) }
    }

    fn own(&self) -> &Lane {
        &self.shared.lanes[self.lane]
    }
}

impl LaneRecorder for JournalLane {
    fn reserve(&self, entries: usize) -> Result<(), Unkept> {
        if self.shared.closing.load(Ordering::Relaxed) {
            return Err(Unkept::Closed);
        }
        if let Some(why) = self.shared.unkept() {
            return Err(why);
        }
        let ring = &self.own().ring;
        let held = self.held.get() + entries;
        if ring.len() + held > RING_ENTRIES || ring.bytes() > RING_BYTES_MAX || self.shared.behind(ring) {
            return Err(Unkept::Behind);
        }
        self.held.set(held);
        Ok(())
    }

    fn release(&self, entries: usize) {
        self.held.set(self.held.get().saturating_sub(entries));
    }

    fn blank(&self) -> Box<Entry> {
        self.own().ring.blank()
    }

    fn offer(&self, entry: Box<Entry>) -> Ticket {
        self.held.set(self.held.get().saturating_sub(1));
        if self.shared.ended.load(Ordering::Relaxed) {
            self.shared.lose(&entry, Unkept::Closed);
            return NO_PLACE;
        }
        let sync = entry.sync;
        match self.own().ring.push(entry, || self.shared.now_ns()) {
            Ok(number) => {
                self.shared.wake(sync);
                Ticket(number)
            }
            Err(entry) => {
                self.shared.lose(&entry, Unkept::Behind);
                NO_PLACE
            }
        }
    }

    fn poll_kept(&self, ticket: Ticket, context: &mut Context<'_>) -> Poll<Result<(), Unkept>> {
        if ticket == NO_PLACE {
            return Poll::Ready(Err(self.shared.unkept().unwrap_or(Unkept::Behind)));
        }
        match self.own().tickets.poll(ticket.0, context) {
            // The record came after the writer's last round.
            Poll::Pending if self.shared.ended.load(Ordering::SeqCst) => Poll::Ready(Err(Unkept::Closed)),
            polled => polled,
        }
    }

    fn orphan(&self, ticket: Ticket) {
        if ticket == NO_PLACE {
            self.shared.miss(1, self.shared.unkept().unwrap_or(Unkept::Behind));
        } else if let Err(why) = self.own().tickets.orphan(ticket.0) {
            self.shared.miss(1, why);
        }
    }

    fn missed(&self, decisions: usize, why: Unkept) {
        self.shared.miss(decisions as u64, why);
    }
}
