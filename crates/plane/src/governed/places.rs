//! The places that a request holds for its records, from admission to the answer. Whatever becomes of the request, also when
//! its client hangs up, places that were not used are given back and decisions that nobody was told of are known as such.

use super::entry;
use crate::{Decision, Lane};
use flyball_core::{DecisionId, DecisionRecord, JournalRecord, LaneRecorder, Sink, Ticket, Unavailable};
use std::future::poll_fn;
use std::time::Duration;

/// So long a decision that is made waits for its record to be on the disk. Deadlines do not end it: what was offered is
/// decided, and a disk that takes this long is broken.
const KEPT_WAIT_MAX: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

pub(crate) type Untold = Vec<Offered>;

/// A decision on its way to the log.
pub(crate) struct Offered {
    pub(super) row: usize,
    id: DecisionId,
    record: DecisionRecord,
    /// What is waited for, where it is.
    ticket: Option<Ticket>,
    /// Whether it is on the disk, or why it will not be, once that is known.
    pub(super) kept: Option<Result<(), Unavailable>>,
}

pub(crate) struct Places<'a, S: Sink> {
    lane: &'a Lane<S>,
    decision: &'a Decision<S::Model>,
    held: usize,
    unkept: Option<Unavailable>,
    /// Decisions that are on their way to the log, and of which nobody has been told.
    offered: Untold,
    counted: bool,
}

impl<'a, S: Sink> Places<'a, S> {
    /// `offered` is memory that is used again.
    pub(super) fn new(lane: &'a Lane<S>, decision: &'a Decision<S::Model>, offered: Untold) -> Places<'a, S> {
        Places { lane, decision, held: 0, unkept: None, offered, counted: false }
    }

    pub(super) fn recorder(&self) -> Option<&'a dyn LaneRecorder> {
        self.lane.desk.recorder.as_deref()
    }

    /// Why the last attempt to hold some failed.
    pub(super) fn unkept(&self) -> Option<Unavailable> {
        self.unkept
    }

    /// Holds so many in all.
    pub(super) fn hold(&mut self, places: usize) -> Result<(), Unavailable> {
        let more = places.saturating_sub(self.held);
        if more == 0 {
            // They are held already, whatever is the matter now.
            self.unkept = None;
            return Ok(());
        }
        let held = self.recorder().map_or(Ok(()), |recorder| recorder.reserve(more));
        self.unkept = held.err();
        held.map(|()| self.held += more)
    }

    /// Hands over an entry that has its place.
    pub(super) fn offer(&mut self, recorder: &dyn LaneRecorder, entry: Box<JournalRecord>) -> Ticket {
        self.held -= 1;
        recorder.offer(entry)
    }

    /// The same of a decision, whose caller is to be told.
    pub(super) fn offer_decision(
        &mut self,
        recorder: &dyn LaneRecorder,
        entry: Box<JournalRecord>,
        (row, record): (usize, DecisionRecord),
    ) {
        let (id, sync) = (entry.id, entry.sync);
        let ticket = self.offer(recorder, entry);
        self.offered.push(Offered { row, id, record, ticket: sync.then_some(ticket), kept: None });
    }

    /// Waits until it is known of each decision whether its record is on the disk. True: all are. A request's records need
    /// not come there together: of one that finds the disk full, the first may be kept and the others lost.
    pub(super) async fn settle(&mut self, recorder: &dyn LaneRecorder) -> bool {
        let settled = async {
            // The last one first: once it is settled, so are those before it, and nobody is woken for them.
            for offered in self.offered.iter_mut().rev().filter(|offered| offered.kept.is_none()) {
                if let Some(ticket) = offered.ticket {
                    offered.kept = Some(poll_fn(|context| recorder.poll_durable(ticket, context)).await);
                }
            }
        };
        let in_time = tokio::time::timeout(KEPT_WAIT_MAX, settled).await.is_ok();
        in_time && self.offered.iter().all(|offered| offered.kept == Some(Ok(())))
    }

    /// Takes out those that are not known to be on the disk.
    pub(super) fn take_unkept(&mut self) -> Untold {
        self.offered.extract_if(.., |offered| offered.kept != Some(Ok(()))).collect()
    }

    /// They may yet come to the disk, and other decisions take their place: they were made, and nobody was told of them.
    pub(super) fn give_up(&mut self, late: &[Offered]) {
        self.count(late);
        self.orphan(late);
        self.undelivered(late);
    }

    fn count(&self, offered: &[Offered]) {
        for offered in offered {
            self.lane.sink.decided(&self.decision.meter, &offered.record);
        }
    }

    /// Whoever keeps the records is told that nobody waits for these, and counts those that are lost.
    pub(super) fn orphan(&self, offered: &[Offered]) {
        let Some(recorder) = self.recorder() else { return };
        for ticket in offered.iter().filter_map(|offered| offered.ticket) {
            recorder.orphan(ticket);
        }
    }

    /// Those that were made are counted.
    pub(super) fn counted(&mut self) {
        self.counted = true;
    }

    /// The answer is written. Gives the memory back.
    pub(super) fn delivered(&mut self) -> Untold {
        self.offered.clear();
        std::mem::take(&mut self.offered)
    }

    fn undelivered(&mut self, offered: &[Offered]) {
        let Some(recorder) = self.recorder().filter(|_| !offered.is_empty()) else { return };
        if self.hold(offered.len().max(self.held)).is_err() {
            return;
        }
        for Offered { id, .. } in offered {
            self.offer(recorder, entry::undelivered(recorder, *id, self.lane.plane.means.wall.now_ns()));
        }
    }
}

impl<S: Sink> Drop for Places<'_, S> {
    fn drop(&mut self) {
        let untold = std::mem::take(&mut self.offered);
        if !self.counted {
            self.count(&untold);
        }
        self.orphan(&untold);
        self.undelivered(&untold);
        if let Some(recorder) = self.recorder().filter(|_| self.held > 0) {
            recorder.release(self.held);
        }
    }
}
