//! The places that a request holds for its records, from admission to the answer. Whatever becomes of the request, also when
//! its client hangs up, places that were not used are given back and decisions that nobody was told of are known as such.

use super::entry;
use crate::{Decision, Lane};
use flyball_core::{DecisionId, DecisionRecord, Entry, LaneRecorder, Sink, Ticket, Unkept};

pub(crate) type Untold = Vec<Offered>;

/// A decision on its way to the log.
pub(crate) struct Offered {
    id: DecisionId,
    record: DecisionRecord,
    /// What is waited for, where it is.
    ticket: Option<Ticket>,
}

pub(crate) struct Places<'a, S: Sink> {
    lane: &'a Lane<S>,
    decision: &'a Decision<S::Model>,
    held: usize,
    unkept: Option<Unkept>,
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
    pub(super) fn unkept(&self) -> Option<Unkept> {
        self.unkept
    }

    /// Holds so many in all.
    pub(super) fn hold(&mut self, places: usize) -> Result<(), Unkept> {
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
    pub(super) fn offer(&mut self, recorder: &dyn LaneRecorder, entry: Box<Entry>) -> Ticket {
        self.held -= 1;
        recorder.offer(entry)
    }

    /// The same of a decision, whose caller is to be told.
    pub(super) fn offer_decision(
        &mut self,
        recorder: &dyn LaneRecorder,
        entry: Box<Entry>,
        record: DecisionRecord,
    ) -> Ticket {
        let (id, sync) = (entry.id, entry.sync);
        let ticket = self.offer(recorder, entry);
        self.offered.push(Offered { id, record, ticket: sync.then_some(ticket) });
        ticket
    }

    /// Another decision takes the place of those that were offered, which are not on the disk.
    pub(super) fn lost(&mut self) {
        self.offered.clear();
    }

    /// The same where they may yet come there: decisions that were made, and nobody was told of them.
    pub(super) fn given_up(&mut self) {
        self.count();
        self.orphan();
        self.undelivered();
        self.offered.clear();
    }

    /// They are answered, and may yet come to the disk or not.
    pub(super) fn answered_early(&mut self) {
        self.orphan();
        self.offered.clear();
    }

    fn count(&self) {
        for offered in &self.offered {
            self.lane.sink.decided(&self.decision.meter, &offered.record);
        }
    }

    /// Whoever keeps the records is told that nobody waits for these.
    fn orphan(&self) {
        let Some(recorder) = self.recorder() else { return };
        for ticket in self.offered.iter().filter_map(|offered| offered.ticket) {
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

    fn undelivered(&mut self) {
        let Some(recorder) = self.recorder().filter(|_| !self.offered.is_empty()) else { return };
        if self.hold(self.offered.len().max(self.held)).is_err() {
            return;
        }
        for Offered { id, .. } in std::mem::take(&mut self.offered) {
            self.offer(recorder, entry::undelivered(recorder, id, self.lane.plane.means.wall.now_ns()));
        }
    }
}

impl<S: Sink> Drop for Places<'_, S> {
    fn drop(&mut self) {
        if !self.counted {
            self.count();
        }
        self.orphan();
        self.undelivered();
        if let Some(recorder) = self.recorder().filter(|_| self.held > 0) {
            recorder.release(self.held);
        }
    }
}
