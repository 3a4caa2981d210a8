//! A lane's own end of the journal. Lives on the lane's thread and never waits, and calls no system but to wake a writer that
//! sleeps. It takes a lock, for as long as a few numbers are compared, only for what is lost and for what nobody waits for.

use crate::ring::{RING_BYTES_MAX, RING_ENTRIES};
use crate::shared::{Lane, Shared};
use flyball_core::{Entry, LaneRecorder, Ticket, Unkept};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// Of an entry that found no place: none was held for it, or the journal is closed.
const NO_PLACE: Ticket = Ticket(u64::MAX);

pub(crate) struct JournalLane {
    shared: Arc<Shared>,
    lane: usize,
    /// Places that are held and not used yet.
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
            // It came when the last round of the writer was over.
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
