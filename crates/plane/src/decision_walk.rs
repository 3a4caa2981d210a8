//! The state that the stages of one decision request share. `decide.rs` calls the stages.

use crate::idempotency::KeyClaim;
use crate::journal_slots::JournalSlots;
use crate::row_buffers::LentBuffers;
use crate::{Decision, Lane};
use flyball_core::{Decisions, RowsOptions, Sink};

pub(crate) struct DecisionWalk<'a, S: Sink> {
    pub(crate) lane: &'a Lane<S>,
    pub(crate) decision: &'a Decision<S::Model>,
    pub(crate) ask: &'a RowsOptions,
    pub(crate) buffers: LentBuffers,
    /// The right to answer for the request's idempotency key.
    pub(crate) claim: Option<KeyClaim>,
    /// Whether this attempt, or an earlier one with the same key, may have added the events to windows.
    pub(crate) counted: bool,
    pub(crate) unix_ms: i64,
    pub(crate) slots: JournalSlots<'a, S>,
}

impl<'a, S: Sink> DecisionWalk<'a, S> {
    pub(crate) fn new(
        lane: &'a Lane<S>,
        decision: &'a Decision<S::Model>,
        ask: &'a RowsOptions,
        mut buffers: LentBuffers,
        claim: Option<KeyClaim>,
    ) -> DecisionWalk<'a, S> {
        let counted = claim.as_ref().is_some_and(|claim| claim.counted);
        let unix_ms = lane.plane.services.wall.now_ms();
        let slots = JournalSlots::new(lane, decision, std::mem::take(&mut buffers.undelivered));
        DecisionWalk { lane, decision, ask, buffers, claim, counted, unix_ms, slots }
    }

    /// The answer is written: keeps it for retries with the same key, and returns the rows for shadows.
    pub(crate) fn delivered(mut self, decisions: Decisions) -> LentBuffers {
        self.buffers.undelivered = self.slots.delivered();
        if let Some(claim) = self.claim.take() {
            claim.answered(decisions, self.lane.now());
            self.decision.answers.warn_evicted(&self.decision.name, self.lane.now());
        }
        self.buffers
    }
}
