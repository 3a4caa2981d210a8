//! The journal slots that a request reserves for its records, from admission to the answer.
//!
//! However the request ends, even if its client hangs up, unused slots are released and undelivered decisions are recorded as
//! such.

use crate::{Decision, Lane};
use flyball_core::{DecisionId, DecisionRecord, JournalRecord, LaneRecorder, Sink, Ticket, Unavailable};
use flyball_journal::record_codec;
use std::future::poll_fn;
use std::time::Duration;

/// How long an answer waits for its record to reach the disk. Deadlines do not end the wait: the decision is made, and a disk
/// that takes this long is broken.
const KEPT_WAIT_MAX: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// A decision on its way to the log.
pub(crate) struct Offered {
    pub(crate) row: usize,
    id: DecisionId,
    record: DecisionRecord,
    /// Set if the answer waits for the disk.
    ticket: Option<Ticket>,
    /// Whether it is on the disk, or why not; none until known.
    pub(crate) kept: Option<Result<(), Unavailable>>,
}

pub(crate) struct JournalSlots<'a, S: Sink> {
    lane: &'a Lane<S>,
    decision: &'a Decision<S::Model>,
    reserved: usize,
    /// Why the last attempt to reserve failed.
    pub(crate) unavailable: Option<Unavailable>,
    /// Decisions that were handed to the journal and are not yet answered.
    offered: Vec<Offered>,
    /// Whether the request's decisions have been counted.
    pub(crate) counted: bool,
}

impl<'a, S: Sink> JournalSlots<'a, S> {
    /// `offered` is reused memory.
    pub(crate) fn new(
        lane: &'a Lane<S>,
        decision: &'a Decision<S::Model>,
        offered: Vec<Offered>,
    ) -> JournalSlots<'a, S> {
        JournalSlots { lane, decision, reserved: 0, unavailable: None, offered, counted: false }
    }

    /// Reserves up to this many in total.
    pub(crate) fn reserve(&mut self, slots: usize) -> Result<(), Unavailable> {
        let more = slots.saturating_sub(self.reserved);
        if more == 0 {
            // Reserved already, whatever state the journal is in now.
            self.unavailable = None;
            return Ok(());
        }
        let reserved = self.lane.recorder().map_or(Ok(()), |recorder| recorder.reserve(more));
        self.unavailable = reserved.err();
        reserved.map(|()| self.reserved += more)
    }

    /// Passes a record with a reserved slot to the journal.
    pub(crate) fn offer(&mut self, recorder: &dyn LaneRecorder, entry: Box<JournalRecord>) -> Ticket {
        self.reserved -= 1;
        recorder.offer(entry)
    }

    /// The same for a decision that is still to be answered.
    pub(crate) fn offer_decision(
        &mut self,
        recorder: &dyn LaneRecorder,
        entry: Box<JournalRecord>,
        (row, record): (usize, DecisionRecord),
    ) {
        let (id, sync) = (entry.id, entry.sync);
        let ticket = self.offer(recorder, entry);
        self.offered.push(Offered { row, id, record, ticket: sync.then_some(ticket), kept: None });
    }

    /// Waits until each decision's record is on the disk or lost; true if all are on the disk. A request's records may differ:
    /// when the disk fills up, the first may be written and the others lost.
    pub(crate) async fn settle(&mut self, recorder: &dyn LaneRecorder) -> bool {
        let settled = async {
            // The last one first: once it is settled, so are the others, without a wake-up for each.
            for offered in self.offered.iter_mut().rev().filter(|offered| offered.kept.is_none()) {
                if let Some(ticket) = offered.ticket {
                    offered.kept = Some(poll_fn(|context| recorder.poll_durable(ticket, context)).await);
                }
            }
        };
        let in_time = tokio::time::timeout(KEPT_WAIT_MAX, settled).await.is_ok();
        in_time && self.offered.iter().all(|offered| offered.kept == Some(Ok(())))
    }

    /// Removes and returns the decisions that are not known to be on the disk.
    pub(crate) fn take_unkept(&mut self) -> Vec<Offered> {
        self.offered.extract_if(.., |offered| offered.kept != Some(Ok(()))).collect()
    }

    /// Replaced decisions whose records may still reach the disk: counts them, and records them as undelivered.
    pub(crate) fn give_up(&mut self, late: &[Offered]) {
        self.count(late);
        self.orphan(late);
        self.undelivered(late);
    }

    fn count(&self, offered: &[Offered]) {
        for offered in offered {
            self.lane.sink.decided(&self.decision.meter, &offered.record);
        }
    }

    /// Nobody waits for these records any more; the journal counts the lost ones.
    pub(crate) fn orphan(&self, offered: &[Offered]) {
        let Some(recorder) = self.lane.recorder() else { return };
        for ticket in offered.iter().filter_map(|offered| offered.ticket) {
            recorder.orphan(ticket);
        }
    }

    /// The answer is written. Returns the memory.
    pub(crate) fn delivered(&mut self) -> Vec<Offered> {
        self.offered.clear();
        std::mem::take(&mut self.offered)
    }

    fn undelivered(&mut self, offered: &[Offered]) {
        let Some(recorder) = self.lane.recorder().filter(|_| !offered.is_empty()) else { return };
        if self.reserve(offered.len().max(self.reserved)).is_err() {
            return;
        }
        for Offered { id, .. } in offered {
            let now_ns = self.lane.plane.services.wall.now_ns();
            self.offer(recorder, record_codec::undelivered(recorder, *id, now_ns));
        }
    }
}

impl<S: Sink> Drop for JournalSlots<'_, S> {
    fn drop(&mut self) {
        let undelivered = std::mem::take(&mut self.offered);
        if !self.counted {
            self.count(&undelivered);
        }
        self.orphan(&undelivered);
        self.undelivered(&undelivered);
        if let Some(recorder) = self.lane.recorder().filter(|_| self.reserved > 0) {
            recorder.release(self.reserved);
        }
    }
}
