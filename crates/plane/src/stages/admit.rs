//! Admission: refuses requests before they cost any work.
//!
//! Checks the limits on requests in flight and on the expected wait, deadlines that cannot be met, memory, and the model's
//! breaker. Decisions also reserve journal slots.

use crate::admission::Permit;
use crate::decision_walk::DecisionWalk;
use crate::plan::{ModelStep, Plan};
use crate::pressure::memory_full;
use crate::remedies::remedy;
use crate::row_buffers::{Progress, RowState};
use crate::stages::record::fault;
use crate::walk::Walk;
use crate::{Lane, Model, Plane};
use flyball_core::triton_texts::DEADLINE;
use flyball_core::{Fault, FaultKind, Nanos, Priority, Sink, Stage};
use flyball_decision::{Durability, Remedies, Remedy, WhenUnavailable};
use std::sync::Arc;
use std::time::Duration;

/// A request's demand on its model.
#[derive(Clone, Copy)]
pub(crate) struct Demand {
    pub(crate) rows: usize,
    pub(crate) priority: Priority,
    pub(crate) deadline: Option<Nanos>,
}

/// A permit to run the model once, or why it is refused.
pub(crate) fn admit<S: Sink>(
    lane: &Lane<S>,
    model: &Model<S::Model>,
    demand: Demand,
) -> Result<Permit, Fault> {
    check(lane, model, demand)?;
    let permit = enter(&lane.plane, model)?;
    model.breaker.enter(lane.now()).map_err(|pause| broken(model, Stage::Admit, pause))?;
    Ok(permit)
}

/// A permit to run several models one after the other, at least one. Gates are entered for the first; the others are only
/// checked.
pub(crate) fn admit_all<'m, S: Sink>(
    lane: &Lane<S>,
    mut models: impl Iterator<Item = &'m Arc<Model<S::Model>>>,
    demand: Demand,
) -> Result<Permit, Fault>
where
    S::Model: 'm,
{
    let first = models.next().expect("a variant has a model");
    let permit = admit(lane, first, demand)?;
    for model in models {
        check(lane, model, demand)?;
        model.breaker.enter(lane.now()).map_err(|pause| broken(model, Stage::Admit, pause))?;
    }
    Ok(permit)
}

/// Whether a request could be answered in time.
pub(crate) fn check<S: Sink>(lane: &Lane<S>, model: &Model<S::Model>, demand: Demand) -> Result<(), Fault> {
    let now = lane.now();
    if demand.deadline.is_some_and(|deadline| deadline <= now) {
        let text = format!("{DEADLINE}: it passed before the request was read");
        return Err(Fault::new(FaultKind::DeadlinePassed, Stage::Admit, text));
    }
    if lane.plane.pressure.is_on() {
        return Err(memory_full(Stage::Admit, lane.plane.limits.memory.bytes_max));
    }
    if let Some(pause) = model.breaker.refuses(now) {
        return Err(broken(model, Stage::Admit, pause));
    }
    let inline = model.service.inline(demand.rows, lane.plane.limits.inline_run_max);
    let wait_at = |home| lane.plane.wait(home, model, demand.priority, demand.deadline, now);
    if !inline || lane.plane.home(model, lane.id).is_none() {
        let home = lane.plane.least_loaded(model, inline);
        return within(model, demand, home.map_or(Duration::ZERO, wait_at), now);
    }
    // Lanes share jobs, so a long queue here is no reason to refuse while another home has little load.
    within(model, demand, wait_at(lane.id), now).or_else(|fault| {
        let homes = lane.plane.homes(model, true);
        let count = u32::try_from(homes.clone().count()).unwrap_or(u32::MAX);
        if count < 2 {
            Err(fault)
        } else {
            within(model, demand, homes.map(wait_at).sum::<Duration>() / count, now)
        }
    })
}

pub(crate) fn broken<M>(model: &Model<M>, stage: Stage, pause: Duration) -> Fault {
    let text =
        format!("model '{}' failed several times in a row; try again in {}", model.name, seconds(pause));
    Fault::new(FaultKind::BreakerOpen, stage, text).retry_after(pause)
}

/// The part of the deadline for wait and run. The rest is a safety margin for the reply, pauses of the host and slow runs.
const USED_MAX: (u32, u32) = (3, 4);

/// Checks that a request that waits this long is still answered in time.
fn within<M>(model: &Model<M>, demand: Demand, wait: Duration, now: Nanos) -> Result<(), Fault> {
    let left = demand.deadline.map(|deadline| deadline.since(now));
    let run = model.service.run_time(demand.rows);
    if let Some(left) = left.filter(|left| run > *left) {
        let (left, name, run) = (seconds(left), &model.name, seconds(run));
        let text =
            format!("{DEADLINE}: it is in {left}, but a run of model '{name}' takes {run}; allow more time");
        return Err(Fault::new(FaultKind::DeadlineUnreachable, Stage::Admit, text));
    }
    let usable = left.map(|left| (left * USED_MAX.0 / USED_MAX.1).saturating_sub(run));
    let wait_max = usable.map_or(model.terms.queue_wait_max, |usable| usable.min(model.terms.queue_wait_max));
    if wait <= wait_max {
        return Ok(());
    }
    let text = format!(
        "model '{}' has {} of queued work, and this request may wait for {} at most; try again later",
        model.name,
        seconds(wait),
        seconds(wait_max)
    );
    Err(Fault::new(FaultKind::WaitTooLong, Stage::Admit, text).retry_after(wait - wait_max))
}

fn enter<M>(plane: &Plane<M>, model: &Model<M>) -> Result<Permit, Fault> {
    let full = |of: &str, most: usize| {
        let text = format!("{of} has {most} requests in flight, its limit; try again shortly");
        Fault::new(FaultKind::InFlightFull, Stage::Admit, text).retry_after(model.service.run_time(1))
    };
    let server = plane.gate.try_enter().ok_or_else(|| full("the server", plane.gate.inside_max))?;
    let deployment = model.gate.try_enter();
    let deployment =
        deployment.ok_or_else(|| full(&format!("model '{}'", model.name), model.gate.inside_max))?;
    Ok(Permit { _server: server, _deployment: deployment })
}

fn seconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// An admitted variant with its permit.
pub(crate) struct Admitted {
    pub(crate) variant: usize,
    pub(crate) permit: Permit,
}

impl<S: Sink> DecisionWalk<'_, S> {
    /// Reserves a journal slot for the record of each row. Without slots all rows fail, unless the decision allows answers
    /// without records.
    pub(crate) fn reserve_slots(&mut self) {
        let rows = self.buffers.states.len();
        let program = &self.decision.program;
        let slots = match program.record.durability {
            Durability::Buffered => rows,
            // Each may need a second record: that its client hung up during the wait for the disk.
            Durability::Sync => 2 * rows,
        };
        let Err(why) = self.slots.reserve(slots) else { return };
        if program.record.when_unavailable == WhenUnavailable::FailClosed {
            let which = self.buffers.rows_where(|state| may_decide(state, &program.remedies));
            self.buffers.fail(&which, &fault(Stage::Admit, why));
            self.buffers.done_with(which);
        }
    }

    /// Once more, for rows whose remedy is a second attempt.
    pub(crate) fn reserve_slots_again(&mut self) {
        let closed = self.decision.program.record.when_unavailable == WhenUnavailable::FailClosed;
        if closed && self.slots.unavailable.is_some() {
            self.reserve_slots();
        }
    }

    /// Admits the plan's first variant with open rows; if that fails, those rows fail. Other variants are admitted when they
    /// run: no request holds two permits.
    pub(crate) fn admit(&mut self, plan: &Plan<'_>) -> Option<Admitted> {
        for step in plan.steps.iter().filter(|step| step.first) {
            let which = self.buffers.rows_where(|state| state.open() && state.variant == step.variant);
            let admitted = (!which.is_empty()).then(|| {
                let permit = self.permit(step.variant, which.len(), plan);
                permit.map_err(|fault| self.buffers.fail(&which, &fault)).ok()
            });
            self.buffers.done_with(which);
            if let Some(permit) = admitted {
                return permit.map(|permit| Admitted { variant: step.variant, permit });
            }
        }
        None
    }

    /// The permit of this step's variant, or a new one if the current permit belongs to another variant.
    pub(crate) fn admit_step(
        &self,
        step: &ModelStep,
        rows: usize,
        admitted: Option<Admitted>,
        plan: &Plan<'_>,
        walk: &mut Walk<S>,
    ) -> Result<Admitted, Fault> {
        let variant = step.variant;
        match admitted.filter(|admitted| admitted.variant == variant) {
            Some(admitted) => Ok(admitted),
            None => {
                let permit = walk.stage(Stage::Admit, self.permit(variant, rows, plan))?;
                Ok(Admitted { variant, permit })
            }
        }
    }

    fn permit(&self, variant: usize, rows: usize, plan: &Plan<'_>) -> Result<Permit, Fault> {
        let demand = Demand { rows, priority: self.ask.priority, deadline: plan.deadline };
        let variant = &self.decision.program.variants[variant];
        admit_all(self.lane, self.decision.variant_models(variant), demand)
    }
}

/// Whether a row may be decided: valid rows, and those whose remedy decides.
fn may_decide(state: &RowState, remedies: &Remedies) -> bool {
    match &state.progress {
        Progress::Failed(fault) => !matches!(remedy(remedies, fault.kind), Remedy::Error | Remedy::Shed),
        Progress::Open | Progress::Decided { .. } => true,
    }
}
