//! Passes each row's record to the journal. If the decision is declared `sync`, the answer waits until the record is on the
//! disk. Slots for the records were reserved at admission.

use crate::decision_walk::DecisionWalk;
use crate::journal_slots::Offered;
use crate::reasons::of_rules;
use crate::remedies::{remedied, shed};
use crate::row_buffers::{Progress, RowState};
use crate::stages::policy::declared;
use crate::walk::Walk;
use flyball_core::{DecisionRecord, Decisions, Fault, FaultKind, LaneRecorder, Sink, Stage, Unavailable};
use flyball_decision::{Durability, Remedy, WhenUnavailable};
use std::time::Duration;

/// The retry pause if the journal has no slot.
const PAUSE: Duration = Duration::from_secs(1);

impl<S: Sink> DecisionWalk<'_, S> {
    /// Records and counts the decisions. Returns the answer, changed by a remedy if recording failed.
    pub(crate) async fn record(
        &mut self,
        decisions: Result<Decisions, Fault>,
        walk: &Walk<S>,
    ) -> Result<Decisions, Fault> {
        let recorded = self.recorded(decisions, walk).await;
        self.count();
        recorded
    }

    async fn recorded(
        &mut self,
        decisions: Result<Decisions, Fault>,
        walk: &Walk<S>,
    ) -> Result<Decisions, Fault> {
        let Some(recorder) = self.lane.recorder() else { return decisions };
        if let Some(why) = self.slots.unavailable {
            self.missed(recorder, why);
            return decisions;
        }
        self.offer(recorder, walk);
        if !self.waits() || self.slots.settle(recorder).await {
            return decisions;
        }
        self.unrecorded(recorder, decisions, walk).await
    }

    /// Whether the answer waits for the disk.
    fn waits(&self) -> bool {
        self.decision.program.record.durability == Durability::Sync
    }

    /// Offers a record of each row that was decided, or that was admitted and failed.
    fn offer(&mut self, recorder: &dyn LaneRecorder, walk: &Walk<S>) {
        let facts = self.request_facts(walk);
        for row in 0..self.buffers.states.len() {
            let Some(record) = record_of(&self.buffers.states[row]) else { continue };
            let mut entry = recorder.blank();
            self.write_record(row, &facts, &mut entry);
            self.buffers.states[row].offered = true;
            if record.outcome.is_some() {
                entry.sync = self.waits();
                self.slots.offer_decision(recorder, entry, (row, record));
            } else {
                self.slots.offer(recorder, entry);
            }
        }
    }

    /// Reports to the journal how many decisions are answered without a record.
    fn missed(&self, recorder: &dyn LaneRecorder, why: Unavailable) {
        let decisions = self.buffers.states.iter().filter(|state| unrecorded(state)).count();
        if decisions > 0 {
            recorder.missed(decisions, why);
        }
    }

    /// Applies the remedy to decisions whose record is not known to be on the disk; the request's other rows keep theirs.
    async fn unrecorded(
        &mut self,
        recorder: &dyn LaneRecorder,
        decisions: Result<Decisions, Fault>,
        walk: &Walk<S>,
    ) -> Result<Decisions, Fault> {
        let program = &self.decision.program;
        if program.record.when_unavailable == WhenUnavailable::ServeUnlogged {
            let unkept = self.slots.take_unkept();
            self.slots.orphan(&unkept);
            return decisions;
        }
        let remedy = program.remedies.record_error;
        let lost = self.let_go();
        let why = lost.unwrap_or(Unavailable::Behind);
        let fault = fault(Stage::Record, why);
        let again = remedy == Remedy::Retry && lost.is_some();
        if !(again && self.offer_again(recorder, &fault, walk).await) {
            self.redecide(remedy, &fault);
            self.missed(recorder, why);
        }
        self.answer(walk)
    }

    /// Whether the records reach the disk the second time.
    async fn offer_again(&mut self, recorder: &dyn LaneRecorder, fault: &Fault, walk: &Walk<S>) -> bool {
        for state in self.buffers.states.iter_mut().filter(|state| unrecorded(state)) {
            state.remedy = remedied(fault, Remedy::Retry).or(state.remedy);
        }
        if self.slots.reserve(2 * self.buffers.states.len()).is_err() {
            return false;
        }
        self.offer(recorder, walk);
        let kept = self.slots.settle(recorder).await;
        if !kept {
            self.let_go();
        }
        kept
    }

    /// Gives up records that are not known to be on the disk; their rows count as unrecorded. Returns why they were lost;
    /// none where some may still reach the disk.
    fn let_go(&mut self) -> Option<Unavailable> {
        let (late, lost): (Vec<Offered>, Vec<Offered>) =
            self.slots.take_unkept().into_iter().partition(|offered| offered.kept.is_none());
        for offered in late.iter().chain(&lost) {
            self.buffers.states[offered.row].offered = false;
        }
        self.slots.give_up(&late);
        let why = lost.first().and_then(|offered| offered.kept?.err());
        why.filter(|_| late.is_empty())
    }

    /// Replaces each unrecorded decision as its remedy declares.
    fn redecide(&mut self, remedy: Remedy, fault: &Fault) {
        let (policy, buffers) = (&self.decision.program.policy, &mut *self.buffers);
        for (row, state) in buffers.states.iter_mut().enumerate().filter(|(_, state)| unrecorded(state)) {
            let verdict = match remedy {
                Remedy::Rules => policy.evaluate(&buffers.rows, row, None).ok(),
                Remedy::Outcome(outcome) => Some(declared(outcome)),
                Remedy::Shed | Remedy::Error | Remedy::Previous | Remedy::Retry => None,
            };
            state.progress = match verdict {
                Some(verdict) => {
                    // The reasons of the unrecorded decision do not apply to this one.
                    state.reasons = of_rules(policy, &verdict, true);
                    Progress::Decided { verdict, score: None }
                }
                None if remedy == Remedy::Shed => Progress::Failed(shed(fault.clone())),
                None => Progress::Failed(fault.clone()),
            };
            // A new decision: the old one's record may still reach the log.
            state.id = self.lane.services.random.id(self.unix_ms);
            state.remedy = remedied(fault, remedy).or(state.remedy);
        }
    }
}

pub(crate) fn fault(stage: Stage, why: Unavailable) -> Fault {
    let text = format!("the decision cannot be recorded, the journal is {}; try again shortly", why.label());
    Fault::new(FaultKind::RecordFailed, stage, text).retry_after(PAUSE)
}

/// Whether a row is decided but has no record, on the disk or under way.
fn unrecorded(state: &RowState) -> bool {
    matches!(state.progress, Progress::Decided { .. }) && !state.offered
}

/// The counted part of a row's record; none for rows that were refused before admission.
fn record_of(state: &RowState) -> Option<DecisionRecord> {
    let outcome = match &state.progress {
        Progress::Decided { verdict, .. } => Some(verdict.outcome),
        Progress::Failed(fault) if fault.stage.index() > Stage::Admit.index() => None,
        Progress::Failed(_) | Progress::Open => return None,
    };
    (!state.offered).then_some(DecisionRecord { outcome, remedy: state.remedy })
}
