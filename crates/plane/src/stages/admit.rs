//! The door: refused here costs nothing further. Bounds on what is in flight, on how long a request would wait, and on
//! deadlines that cannot be kept; a model that fails again and again is left alone for a while.

use crate::admission::Permit;
use crate::pressure::memory_full;
use crate::{Lane, Model, Plane};
use flyball_core::{Fault, FaultKind, Nanos, Priority, Sink, Stage};
use std::sync::Arc;
use std::time::Duration;

/// What a request wants of its model.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) rows: usize,
    pub(crate) priority: Priority,
    pub(crate) deadline: Option<Nanos>,
}

/// A permit to run the model once, or the reason why not.
pub(crate) fn admit<S: Sink>(lane: &Lane<S>, model: &Model<S::Model>, ask: Ask) -> Result<Permit, Fault> {
    judge(lane, model, ask)?;
    let permit = enter(&lane.plane, model)?;
    model.breaker.enter(lane.now()).map_err(|pause| broken(model, Stage::Admit, pause))?;
    Ok(permit)
}

/// A permit to run several models one after the other. The first is waited for; of the others it is only asked whether
/// they could be run at all.
pub(crate) fn admit_all<'m, S: Sink>(
    lane: &Lane<S>,
    mut models: impl Iterator<Item = &'m Arc<Model<S::Model>>>,
    ask: Ask,
) -> Result<Permit, Fault>
where
    S::Model: 'm,
{
    let first = models.next().expect("a variant has a model");
    let permit = admit(lane, first, ask)?;
    for model in models {
        judge(lane, model, ask)?;
        model.breaker.enter(lane.now()).map_err(|pause| broken(model, Stage::Admit, pause))?;
    }
    Ok(permit)
}

/// Whether a request may come in, as far as waiting is concerned.
pub(crate) fn judge<S: Sink>(lane: &Lane<S>, model: &Model<S::Model>, ask: Ask) -> Result<(), Fault> {
    let now = lane.now();
    if ask.deadline.is_some_and(|deadline| deadline <= now) {
        let text = "the deadline passed before the request was read";
        return Err(Fault::new(FaultKind::DeadlinePassed, Stage::Admit, text));
    }
    if lane.plane.pressure.is_on() {
        return Err(memory_full(Stage::Admit, lane.plane.limits.memory.bytes_max));
    }
    if let Some(pause) = model.breaker.refuses(now) {
        return Err(broken(model, Stage::Admit, pause));
    }
    let inline = model.service.inline(ask.rows, lane.plane.limits.inline_run_max);
    let wait_at = |home| lane.plane.wait(home, model, ask.priority, ask.deadline, now);
    if !inline || lane.plane.home(model, lane.id).is_none() {
        let home = lane.plane.least_loaded(model, inline);
        return within(model, ask, home.map_or(Duration::ZERO, wait_at), now);
    }
    // Lanes share what they have too much of, so a long queue here is no reason while another home has little to do.
    within(model, ask, wait_at(lane.id), now).or_else(|fault| {
        let homes = lane.plane.homes(model, true);
        let count = u32::try_from(homes.clone().count()).unwrap_or(u32::MAX);
        if count < 2 {
            Err(fault)
        } else {
            within(model, ask, homes.map(wait_at).sum::<Duration>() / count, now)
        }
    })
}

pub(crate) fn broken<M>(model: &Model<M>, stage: Stage, pause: Duration) -> Fault {
    let text =
        format!("model '{}' failed several times in a row; try again in {}", model.name, seconds(pause));
    Fault::new(FaultKind::BreakerOpen, stage, text).retry_after(pause)
}

/// Part of the time to the deadline that wait and run may take together. The rest is for what no estimate knows: the way
/// back, the host's own pauses, a run that is slower than most.
const USED_MAX: (u32, u32) = (3, 4);

/// Whether a request that waits for so long still gets its answer in time.
fn within<M>(model: &Model<M>, ask: Ask, wait: Duration, now: Nanos) -> Result<(), Fault> {
    let left = ask.deadline.map(|deadline| deadline.since(now));
    let run = model.service.run_time(ask.rows);
    if let Some(left) = left.filter(|left| run > *left) {
        let text = format!(
            "the deadline is in {}, but a run of model '{}' takes {}; allow more time",
            seconds(left),
            model.name,
            seconds(run)
        );
        return Err(Fault::new(FaultKind::DeadlineUnreachable, Stage::Admit, text));
    }
    let usable = left.map(|left| (left * USED_MAX.0 / USED_MAX.1).saturating_sub(run));
    let wait_max = usable.map_or(model.terms.queue_wait_max, |usable| usable.min(model.terms.queue_wait_max));
    if wait <= wait_max {
        return Ok(());
    }
    let text = format!(
        "model '{}' has requests for {} before this one, which may wait for {}; try again later",
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
    let server = plane.gate.try_enter().ok_or_else(|| full("the server", plane.gate.inside_max()))?;
    let deployment = model.gate.try_enter();
    let deployment =
        deployment.ok_or_else(|| full(&format!("model '{}'", model.name), model.gate.inside_max()))?;
    Ok(Permit { _server: server, _deployment: deployment })
}

fn seconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}
