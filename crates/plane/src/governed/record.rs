//! Recording decisions: a place for each before anything is computed, the record once it is made, and what is done where
//! there is no place, or where the record does not come to the disk.

use super::case::{Case, declared};
use super::entry::{Told, never, of_row};
use super::places::Untold;
use super::remedy::{remedied, remedy, shed};
use super::work::{Line, State};
use crate::stages::reasons::of_rules;
use crate::walk::Walk;
use flyball_core::{DecisionRecord, Decisions, Fault, FaultKind, LaneRecorder, Sink, Stage, Unavailable};
use flyball_decision::{Durability, Remedy, WhenUnavailable};
use std::time::Duration;

/// Those who find no place come again after this long.
const PAUSE: Duration = Duration::from_secs(1);

/// Why records that were offered are not known to be on the disk.
enum Lost {
    /// They will not be.
    Unavailable(Unavailable),
    /// Some may yet be.
    Late,
}

impl<S: Sink> Case<'_, S> {
    /// Holds a place for the record of each row. Where there is none, no row is decided; unless the decision's author wants
    /// it to be all the same.
    pub(super) fn hold_places(&mut self) {
        let rows = self.work.lines.len();
        let record = &self.decision.program.record;
        let places = match record.durability {
            Durability::Buffered => rows,
            // Each may have a second: that its client hung up while it was waited for.
            Durability::Sync => 2 * rows,
        };
        let Err(why) = self.places.hold(places) else { return };
        if record.when_unavailable == WhenUnavailable::FailClosed {
            let remedies = &self.decision.program.remedies;
            let which = self.work.rows_where(|line| may_decide(line, |kind| remedy(remedies, kind)));
            self.work.fail(&which, &fault(Stage::Admit, why));
            self.work.done_with(which);
        }
    }

    /// Once more, for rows whose remedy that is.
    pub(super) fn hold_places_again(&mut self) {
        let closed = self.decision.program.record.when_unavailable == WhenUnavailable::FailClosed;
        if closed && self.places.unkept().is_some() {
            self.hold_places();
        }
    }

    /// Whether a row's record has its input, features and outputs.
    pub(super) fn whole(&self, row: usize) -> bool {
        self.decision.program.record.whole(self.work.lines[row].id)
    }

    /// The answer as it was recorded, or as the remedy leaves it.
    pub(super) async fn record(
        &mut self,
        decisions: Result<Decisions, Fault>,
        walk: &Walk<S>,
    ) -> Result<Decisions, Fault> {
        let Some(recorder) = self.places.recorder() else { return decisions };
        if let Some(why) = self.places.unkept() {
            self.missed(recorder, why);
            return decisions;
        }
        self.offer(recorder, walk);
        if !self.waits() || self.places.settle(recorder).await {
            return decisions;
        }
        self.unrecorded(recorder, decisions, walk).await
    }

    /// Whether a decision is answered only once its record is on the disk.
    fn waits(&self) -> bool {
        self.decision.program.record.durability == Durability::Sync
    }

    /// Offers a record of each row that was decided, or was admitted and failed.
    fn offer(&mut self, recorder: &dyn LaneRecorder, walk: &Walk<S>) {
        let told = Told::of(self, walk);
        for row in 0..self.work.lines.len() {
            let Some(record) = recorded(&self.work.lines[row]) else { continue };
            let mut entry = recorder.blank();
            never(of_row(self, row, &told, &mut entry));
            self.work.lines[row].offered = true;
            if record.outcome.is_some() {
                entry.sync = self.waits();
                self.places.offer_decision(recorder, entry, (row, record));
            } else {
                self.places.offer(recorder, entry);
            }
        }
    }

    /// So many are answered without a record.
    fn missed(&self, recorder: &dyn LaneRecorder, why: Unavailable) {
        let decisions = self.work.lines.iter().filter(|line| unrecorded(line)).count();
        if decisions > 0 {
            recorder.missed(decisions, why);
        }
    }

    /// What becomes of decisions whose record is not known to be on the disk; the others of the request stay as they are.
    async fn unrecorded(
        &mut self,
        recorder: &dyn LaneRecorder,
        decisions: Result<Decisions, Fault>,
        walk: &Walk<S>,
    ) -> Result<Decisions, Fault> {
        let program = &self.decision.program;
        if program.record.when_unavailable == WhenUnavailable::ServeUnlogged {
            let unkept = self.places.take_unkept();
            self.places.orphan(&unkept);
            return decisions;
        }
        let remedy = program.remedies.record_error;
        let lost = self.let_go();
        let fault = fault(Stage::Record, lost.why());
        let again = remedy == Remedy::Retry && matches!(lost, Lost::Unavailable(_));
        if !(again && self.offer_again(recorder, &fault, walk).await) {
            self.judge_again(remedy, &fault);
            self.missed(recorder, lost.why());
        }
        self.finish(walk)
    }

    /// Whether the records come to the disk the second time.
    async fn offer_again(&mut self, recorder: &dyn LaneRecorder, fault: &Fault, walk: &Walk<S>) -> bool {
        for line in self.work.lines.iter_mut().filter(|line| unrecorded(line)) {
            line.remedy = remedied(fault, Remedy::Retry).or(line.remedy);
        }
        if self.places.hold(2 * self.work.lines.len()).is_err() {
            return false;
        }
        self.offer(recorder, walk);
        let kept = self.places.settle(recorder).await;
        if !kept {
            self.let_go();
        }
        kept
    }

    /// Rows whose record is not known to be on the disk are without one from here on.
    fn let_go(&mut self) -> Lost {
        let (late, lost): (Untold, Untold) =
            self.places.take_unkept().into_iter().partition(|offered| offered.kept.is_none());
        for offered in late.iter().chain(&lost) {
            self.work.lines[offered.row].offered = false;
        }
        self.places.give_up(&late);
        let why = lost.first().and_then(|offered| offered.kept?.err());
        why.filter(|_| late.is_empty()).map_or(Lost::Late, Lost::Unavailable)
    }

    /// Does for each decision that has no record what was declared for that.
    fn judge_again(&mut self, remedy: Remedy, fault: &Fault) {
        let (policy, work) = (&self.decision.program.policy, &mut *self.work);
        for (row, line) in work.lines.iter_mut().enumerate().filter(|(_, line)| unrecorded(line)) {
            let verdict = match remedy {
                Remedy::Rules => policy.evaluate(&work.rows, row, None).ok(),
                Remedy::Outcome(outcome) => Some(declared(outcome)),
                Remedy::Shed | Remedy::Error | Remedy::Previous | Remedy::Retry => None,
            };
            line.state = match verdict {
                Some(verdict) => {
                    // Those of what could not be recorded say nothing of this one.
                    line.reasons = of_rules(policy, &verdict, true);
                    State::Judged { verdict, score: None }
                }
                None if remedy == Remedy::Shed => State::Failed(shed(fault.clone())),
                None => State::Failed(fault.clone()),
            };
            // It is another decision than the one that may yet be found in the log.
            line.id = self.lane.desk.ids.id(self.unix_ms);
            line.remedy = remedied(fault, remedy).or(line.remedy);
        }
    }
}

impl Lost {
    fn why(&self) -> Unavailable {
        match self {
            Lost::Unavailable(why) => *why,
            Lost::Late => Unavailable::Behind,
        }
    }
}

pub(super) fn fault(stage: Stage, why: Unavailable) -> Fault {
    let text = format!("the decision cannot be recorded, the journal is {}; try again shortly", why.label());
    Fault::new(FaultKind::RecordFailed, stage, text).retry_after(PAUSE)
}

/// It is decided, and no record of it is on its way or on the disk.
fn unrecorded(line: &Line) -> bool {
    matches!(line.state, State::Judged { .. }) && !line.offered
}

/// Whether a row may come to a decision: those that hold to the schema, and those whose remedy decides.
fn may_decide(line: &Line, remedy: impl Fn(FaultKind) -> Remedy) -> bool {
    match &line.state {
        State::Failed(fault) => !matches!(remedy(fault.kind), Remedy::Error | Remedy::Shed),
        State::Open | State::Judged { .. } => true,
    }
}

/// What is recorded of a row, where anything is: not of those that were refused before they were admitted.
fn recorded(line: &Line) -> Option<DecisionRecord> {
    let outcome = match &line.state {
        State::Judged { verdict, .. } => Some(verdict.outcome),
        State::Failed(fault) if fault.stage.index() > Stage::Admit.index() => None,
        State::Failed(_) | State::Open => return None,
    };
    (!line.offered).then_some(DecisionRecord { outcome, remedy: line.remedy })
}
