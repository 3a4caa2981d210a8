//! One request for decisions under way: route, admit, features, tensors and runs, policy; and, where one of them failed, what
//! was declared for that, once.

use super::answers::Turn;
use super::places::Places;
use super::remedy::{first_deadline, remedied, remedy, shed};
use super::work::{Lent, Line, State};
use crate::admission::Permit;
use crate::batch::{self, Ticket};
use crate::stages::admit::{Ask, admit_all};
use crate::stages::features::{EventIs, Occasion, features};
use crate::stages::policy::{guard, judge};
use crate::walk::Walk;
use crate::{Decision, Lane};
use flyball_core::{Decisions, Fault, FaultKind, Nanos, RowsOptions, Sink, Stage};
use flyball_decision::{ChosenRoute, Fired, Remedy, Verdict};
use std::time::Duration;

/// A variant whose models may be run.
struct Admitted {
    variant: usize,
    permit: Permit,
}

pub(crate) struct Case<'a, S: Sink> {
    pub(crate) lane: &'a Lane<S>,
    pub(crate) decision: &'a Decision<S::Model>,
    pub(crate) ask: &'a RowsOptions,
    pub(crate) work: Lent,
    turn: Option<Turn>,
    /// Whether this attempt, or one before it with the same key, may have added the events to windows.
    counted: bool,
    pub(super) unix_ms: i64,
    /// For its records.
    pub(super) places: Places<'a, S>,
}

impl<'a, S: Sink> Case<'a, S> {
    pub(crate) fn new(
        lane: &'a Lane<S>,
        decision: &'a Decision<S::Model>,
        ask: &'a RowsOptions,
        mut work: Lent,
        turn: Option<Turn>,
    ) -> Case<'a, S> {
        let counted = turn.as_ref().is_some_and(|turn| turn.counted);
        let (unix_ms, places) =
            (lane.plane.means.wall.now_ms(), Places::new(lane, decision, std::mem::take(&mut work.untold)));
        Case { lane, decision, ask, work, turn, counted, unix_ms, places }
    }

    /// It is answered. What is left of it: the rows for those that run beside, and the key's turn.
    pub(crate) fn end(mut self) -> (Lent, Option<Turn>) {
        self.work.untold = self.places.delivered();
        (self.work, self.turn)
    }

    /// The stages from route to record.
    pub(crate) async fn decide(&mut self, walk: &mut Walk<S>) -> Result<Decisions, Fault> {
        self.route();
        walk.stage(Stage::Route, ());
        self.hold_places();
        match self.decision.program.policy.kill_switch() {
            Some(killed) => {
                self.decide_open(killed.outcome);
                // What is left are rows that do not hold to the schema, and no remedy for those runs a model; or all, where
                // there was no place for their records.
                if self.remedy() {
                    self.hold_places_again();
                    self.decide_open(killed.outcome);
                }
            }
            None => {
                self.attempt(walk).await;
                if self.remedy() {
                    self.again(walk).await;
                }
            }
        }
        self.explain(walk).await;
        let decisions = self.finish(walk);
        walk.stage(Stage::Policy, ());
        let decisions = self.record(decisions, walk).await;
        self.count();
        walk.stage(Stage::Record, decisions)
    }

    /// Rows that hold to the schema are open, each with its variant.
    fn route(&mut self) {
        let (program, work) = (&self.decision.program, &mut *self.work);
        program.begin_scores(&work.rows, &mut work.scores);
        work.ran.begin(work.rows.len(), program.models.len());
        work.lines.clear();
        for row in 0..work.rows.len() {
            let state = if work.rows.sound(row) {
                State::Open
            } else {
                let faults = work.rows.faults(row).cloned().collect();
                State::Failed(Fault::fields_invalid(Stage::Parse, faults))
            };
            let variant = match work.rows.route(row) {
                Some(ChosenRoute::Variant(variant)) => variant,
                _ => program.route.choose(&work.rows, row, self.lane.desk.ids.draw()),
            };
            work.lines.push(Line::new(self.lane.desk.ids.id(self.unix_ms), variant, state));
        }
    }

    /// The first attempt: admission, features, and a run for each variant that rows go to.
    async fn attempt(&mut self, walk: &mut Walk<S>) {
        let remedies = &self.decision.program.remedies;
        let deadline = first_deadline(remedies, walk.deadline, self.lane.now());
        let admitted = self.admit(deadline);
        let admitted = walk.stage(Stage::Admit, admitted);
        let which = self.work.rows_where(|line| wants_features(line, |kind| remedy(remedies, kind)));
        self.features(&which, deadline).await;
        self.work.done_with(which);
        walk.stage(Stage::Features, ());
        self.judge_by_rules(|way| way == Some(ChosenRoute::Rules));
        guard(self.decision, &mut self.work).await;
        self.run_open(admitted, deadline, walk).await;
    }

    /// Admits the rows of the first open one's variant together; where that fails, they do. Those of other variants are
    /// admitted when they run.
    fn admit(&mut self, deadline: Option<Nanos>) -> Option<Admitted> {
        if !self.decision.program.scored() {
            return None;
        }
        let variant = self.work.lines.iter().find(|line| line.open())?.variant;
        let which = self.work.rows_where(|line| line.open() && line.variant == variant);
        let ask = Ask { rows: which.len(), priority: self.ask.priority, deadline };
        let models = self.decision.variant_models(&self.decision.program.variants[variant]);
        let permit = admit_all(self.lane, models, ask).map_err(|fault| self.work.fail(&which, &fault)).ok();
        self.work.done_with(which);
        permit.map(|permit| Admitted { variant, permit })
    }

    async fn features(&mut self, which: &[usize], deadline: Option<Nanos>) {
        if which.is_empty() {
            return;
        }
        let event = match (self.lane.plane.means.offline, self.counted) {
            (true, _) => EventIs::Unreal,
            (false, true) => EventIs::Counted,
            (false, false) => EventIs::New,
        };
        let occasion = Occasion { unix_ms: self.unix_ms, deadline, event };
        let before = self.counted;
        // Before the first await: whoever hangs up meanwhile may have been counted.
        self.count_as(before || event == EventIs::New);
        let written = features(self.lane, self.decision, &mut self.work, which, occasion).await;
        self.count_as(before || written);
    }

    fn count_as(&mut self, counted: bool) {
        self.counted = counted;
        if let Some(turn) = &mut self.turn {
            turn.counted = counted;
        }
    }

    /// Runs the open rows, variant by variant, and judges them. The one that was admitted comes first: no request holds
    /// two permits.
    async fn run_open(&mut self, admitted: Option<Admitted>, deadline: Option<Nanos>, walk: &mut Walk<S>) {
        if !self.decision.program.scored() {
            self.judge_by_rules(|_way| true);
            return walk.stage(Stage::Policy, ());
        }
        let variants = self.decision.program.variants.len();
        let first = admitted.as_ref().map_or(0, |admitted| admitted.variant);
        let mut permit = admitted.map(|admitted| admitted.permit);
        for variant in (first..variants).chain(0..first) {
            // Nobody else's: it knows nothing of another variant's models.
            let permit = permit.take();
            let which = self.work.rows_where(|line| line.open() && line.variant == variant);
            if !which.is_empty() {
                walk.rows += which.len();
                match self.run(variant, &which, permit, deadline, walk).await {
                    Ok(_permit) => judge(self.decision, &mut self.work, &which).await,
                    Err(fault) if fault.kind == FaultKind::RunFailed && which.len() > 1 => {
                        self.run_apart(variant, &which, deadline, walk).await;
                    }
                    Err(fault) => self.work.fail(&which, &fault),
                }
                walk.stage(Stage::Policy, ());
            }
            self.work.done_with(which);
        }
    }

    /// One bad row must not fail its neighbours: each that has no score yet runs by itself.
    async fn run_apart(
        &mut self,
        variant: usize,
        which: &[usize],
        deadline: Option<Nanos>,
        walk: &mut Walk<S>,
    ) {
        let mut permit = None;
        for row in which {
            let row = std::slice::from_ref(row);
            match self.run(variant, row, permit.take(), deadline, walk).await {
                Ok(back) => {
                    permit = Some(back);
                    judge(self.decision, &mut self.work, row).await;
                }
                Err(fault) => self.work.fail(row, &fault),
            }
        }
    }

    /// Runs a variant's models, one after the other. What has its score already is not run again.
    async fn run(
        &mut self,
        variant: usize,
        which: &[usize],
        permit: Option<Permit>,
        deadline: Option<Nanos>,
        walk: &mut Walk<S>,
    ) -> Result<Permit, Fault> {
        let variant = &self.decision.program.variants[variant];
        let mut permit = match permit {
            Some(permit) => permit,
            None => {
                let ask = Ask { rows: which.len(), priority: self.ask.priority, deadline };
                let admitted = admit_all(self.lane, self.decision.variant_models(variant), ask);
                walk.stage(Stage::Admit, admitted)?
            }
        };
        for &model in &variant.models {
            for some in which.chunks(self.decision.models[model].rows_at_once()) {
                if some.iter().any(|&row| self.work.scores.get(row, model).is_nan()) {
                    permit = self.run_model(model, some, permit, deadline, walk).await?;
                }
            }
        }
        Ok(permit)
    }

    async fn run_model(
        &mut self,
        model: usize,
        which: &[usize],
        permit: Permit,
        deadline: Option<Nanos>,
        walk: &mut Walk<S>,
    ) -> Result<Permit, Fault> {
        let (lane, program, work) = (self.lane, &self.decision.program, &mut *self.work);
        let mut inputs = lane.spare();
        program.tensors(model, &work.rows, which, &work.scores, &mut work.scratch, &mut inputs);
        walk.stage(Stage::Tensor, ());
        let mut ticket = Ticket::new(permit, self.ask.priority, deadline);
        if deadline < walk.deadline {
            // Somebody answers in its place, and in time.
            ticket.grace = Duration::ZERO;
        }
        let ran = batch::run(lane, &self.decision.models[model], inputs, ticket).await;
        let (ran, permit) = walk.ran(ran)?;
        let scored = program.scores(model, &ran.outputs, which, &mut work.scores);
        if lane.desk.recorder.is_some() {
            work.ran.note(model, which, &ran, |row| program.record.whole(work.lines[row].id));
        }
        lane.keep(ran.outputs);
        scored.map(|()| permit)
    }

    /// Does for each row that failed what was declared for that. True: some are to run once more.
    fn remedy(&mut self) -> bool {
        let program = &self.decision.program;
        let mut again = false;
        for row in 0..self.work.lines.len() {
            let work = &mut *self.work;
            let State::Failed(fault) = &work.lines[row].state else { continue };
            let remedy = remedy(&program.remedies, fault.kind);
            let remedied = remedied(fault, remedy);
            let state = match (remedy, program.route.fallback) {
                (Remedy::Error, _) | (Remedy::Previous, None) => continue,
                (Remedy::Shed, _) => State::Failed(shed(fault.clone())),
                (Remedy::Rules, _) => match program.policy.evaluate(&work.rows, row, None) {
                    Ok(verdict) => State::Judged { verdict, score: None },
                    Err(_) => continue,
                },
                (Remedy::Outcome(outcome), _) => State::Judged { verdict: declared(outcome), score: None },
                (Remedy::Retry, _) => State::Open,
                (Remedy::Previous, Some(fallback)) => {
                    work.lines[row].variant = fallback;
                    State::Open
                }
            };
            work.lines[row].state = state;
            work.lines[row].remedy = remedied;
            again |= work.lines[row].open();
        }
        again
    }

    /// The second time, and there is no third.
    async fn again(&mut self, walk: &mut Walk<S>) {
        let without = |line: &Line| {
            let cause = line.remedy.as_ref().map(|remedied| remedied.cause);
            line.open() && cause == Some(FaultKind::FeatureUnavailable)
        };
        self.hold_places_again();
        let which = self.work.rows_where(without);
        if !which.is_empty() {
            self.features(&which, walk.deadline).await;
            walk.stage(Stage::Features, ());
        }
        self.work.done_with(which);
        guard(self.decision, &mut self.work).await;
        self.run_open(None, walk.deadline, walk).await;
    }

    /// Open rows whose way is one for the rules alone.
    fn judge_by_rules(&mut self, alone: impl Fn(Option<ChosenRoute>) -> bool) {
        let (policy, work) = (&self.decision.program.policy, &mut *self.work);
        for (row, line) in work.lines.iter_mut().enumerate().filter(|(_, line)| line.open()) {
            if alone(work.rows.route(row))
                && let Ok(verdict) = policy.evaluate(&work.rows, row, None)
            {
                line.state = State::Judged { verdict, score: None };
            }
        }
    }

    /// The same verdict for each open row.
    fn decide_open(&mut self, outcome: usize) {
        for line in self.work.lines.iter_mut().filter(|line| line.open()) {
            line.state = State::Judged { verdict: declared(outcome), score: None };
        }
    }
}

/// Rows that go on, and those whose remedy reads features too. One that does not hold to the schema is no event.
fn wants_features(line: &Line, remedy: impl Fn(FaultKind) -> Remedy) -> bool {
    match &line.state {
        State::Open => true,
        State::Judged { .. } => false,
        State::Failed(fault) => {
            fault.kind != FaultKind::FieldsInvalid
                && matches!(remedy(fault.kind), Remedy::Rules | Remedy::Retry | Remedy::Previous)
        }
    }
}

/// What was declared for a case, and not judged.
pub(super) fn declared(outcome: usize) -> Verdict {
    Verdict { outcome, band: None, fired: Fired::new() }
}
