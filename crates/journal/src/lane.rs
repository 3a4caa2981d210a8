//! A lane's interface to the journal. Runs on the lane's thread and never waits.
//!
//! It makes no system call except to wake a sleeping writer. It takes a lock, for a few comparisons, only for
//! losses and orphans.

use crate::ring::{RING_BYTES_MAX, RING_RECORDS};
use crate::shared::{Lane, Shared};
use flyball_core::{JournalRecord, LaneRecorder, Ticket, Unavailable};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// The ticket of a record without a slot: none was reserved, or the journal is closed.
const NO_SLOT: Ticket = Ticket(u64::MAX);

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
    fn reserve(&self, records: usize) -> Result<(), Unavailable> {
        if self.shared.closing.load(Ordering::Relaxed) {
            return Err(Unavailable::Closed);
        }
        if let Some(why) = self.shared.unavailable() {
            return Err(why);
        }
        let ring = &self.own().ring;
        let held = self.held.get() + records;
        if ring.len() + held > RING_RECORDS || ring.bytes() > RING_BYTES_MAX || self.shared.behind(ring) {
            return Err(Unavailable::Behind);
        }
        self.held.set(held);
        Ok(())
    }

    fn release(&self, records: usize) {
        self.held.set(self.held.get().saturating_sub(records));
    }

    fn blank(&self) -> Box<JournalRecord> {
        self.own().ring.blank()
    }

    fn offer(&self, record: Box<JournalRecord>) -> Ticket {
        self.held.set(self.held.get().saturating_sub(1));
        if self.shared.ended.load(Ordering::Relaxed) {
            self.shared.lose(&record, Unavailable::Closed);
            return NO_SLOT;
        }
        let sync = record.sync;
        match self.own().ring.push(record, || self.shared.now_ns()) {
            Ok(number) => {
                self.shared.wake(sync);
                Ticket(number)
            }
            Err(record) => {
                self.shared.lose(&record, Unavailable::Behind);
                NO_SLOT
            }
        }
    }

    fn poll_durable(&self, ticket: Ticket, context: &mut Context<'_>) -> Poll<Result<(), Unavailable>> {
        if ticket == NO_SLOT {
            return Poll::Ready(Err(self.shared.unavailable().unwrap_or(Unavailable::Behind)));
        }
        match self.own().tickets.poll(ticket.0, context) {
            // The record came after the writer's last round.
            Poll::Pending if self.shared.ended.load(Ordering::SeqCst) => {
                Poll::Ready(Err(Unavailable::Closed))
            }
            polled => polled,
        }
    }

    fn orphan(&self, ticket: Ticket) {
        if ticket == NO_SLOT {
            self.shared.miss(1, self.shared.unavailable().unwrap_or(Unavailable::Behind));
        } else if let Err(why) = self.own().tickets.orphan(ticket.0) {
            self.shared.miss(1, why);
        }
    }

    fn missed(&self, decisions: usize, why: Unavailable) {
        self.shared.miss(decisions as u64, why);
    }
}
