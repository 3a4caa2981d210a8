//! What runs beside decisions and is never in an answer: other variants and another policy, compared with what counted.
//!
//! After the answer, on the rows as the request left them, one at a time and only while nothing else wants the lane: shadows
//! are the first to be dropped. They read no feature, write no window, and what they find is counted and recorded. One that
//! panics has failed, and the lane goes on.

use super::entry::{self, Judged};
use super::work::{Lent, Line, State, Work};
use crate::admission::Permit;
use crate::batch::{self, Ticket};
use crate::stages::admit::{Ask, admit};
use crate::{Decision, Lane, Model};
use flyball_core::{Priority, Shadow, Shadowed, Sink};
use flyball_decision::Scratch;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Notify;

/// Requests whose shadows may wait on one lane; they hold their rows in memory.
const WAITING_MAX: usize = 64;
/// And their rows: those of a few long lists.
const ROWS_WAITING_MAX: usize = 4096;

pub(crate) struct Shadows<M> {
    waiting: RefCell<VecDeque<(Arc<Decision<M>>, Lent)>>,
    /// Of those that wait.
    rows: Cell<usize>,
    arrived: Notify,
}

impl<M> Default for Shadows<M> {
    fn default() -> Shadows<M> {
        Shadows { waiting: RefCell::default(), rows: Cell::new(0), arrived: Notify::new() }
    }
}

impl<M> Shadows<M> {
    fn has_room(&self, rows: usize) -> bool {
        self.waiting.borrow().len() < WAITING_MAX && self.rows.get() + rows <= ROWS_WAITING_MAX
    }

    fn push(&self, decision: Arc<Decision<M>>, work: Lent) {
        self.rows.set(self.rows.get() + work.lines.len());
        self.waiting.borrow_mut().push_back((decision, work));
        self.arrived.notify_one();
    }

    fn pop(&self) -> Option<(Arc<Decision<M>>, Lent)> {
        let next = self.waiting.borrow_mut().pop_front()?;
        self.rows.set(self.rows.get() - next.1.lines.len());
        Some(next)
    }
}

/// Leaves a request's rows for its decision's shadows, where it has some.
pub(crate) fn offer<S: Sink>(lane: &Lane<S>, decision: Arc<Decision<S::Model>>, work: Lent) {
    let program = &decision.program;
    if program.route.shadow.is_empty() && program.policy.shadow.is_none() {
        return;
    }
    let shadows = &lane.desk.shadows;
    if !shadows.has_room(work.lines.len()) {
        for &variant in &program.route.shadow {
            each(lane, &decision, &work, Some(variant), |_, _| Some(Beside::Dropped));
        }
        return each(lane, &decision, &work, None, |_, _| {
            program.policy.shadow.as_ref().map(|_| Beside::Dropped)
        });
    }
    shadows.push(decision, work);
}

/// A lane's shadows, one after the other, for as long as it is polled.
pub(crate) async fn walk<S: Sink>(lane: &Lane<S>) {
    loop {
        match lane.desk.shadows.pop() {
            Some((decision, work)) => beside(lane, &decision, work).await,
            None => lane.desk.shadows.arrived.notified().await,
        }
    }
}

async fn beside<S: Sink>(lane: &Lane<S>, decision: &Decision<S::Model>, mut work: Lent) {
    let program = &decision.program;
    each(lane, decision, &work, None, |row, line| {
        let State::Judged { verdict, score } = &line.state else { return None };
        let shadow = program.policy.shadow.as_ref()?;
        let judged = shadow.evaluate(&work.rows, row, *score);
        // By name: its outcomes are its own, and may stand in another order.
        Some(judged.map_or(Beside::Failed, |other| Beside::Judged {
            agrees: shadow.outcome(other.outcome) == program.policy.outcome(verdict.outcome),
            apart: 0.0,
            score: *score,
            outcome: shadow.outcome(other.outcome),
        }))
    });
    for &variant in &program.route.shadow {
        let ran = caught(run(lane, decision, &mut work, variant)).await.unwrap_or_else(|| {
            // It may have been left anyhow, and the next request gets it.
            work.scratch = Scratch::default();
            Ran::Failed
        });
        each(lane, decision, &work, Some(variant), |row, line| match ran {
            Ran::Dropped => Some(Beside::Dropped),
            Ran::Failed => Some(Beside::Failed),
            Ran::Scored => compared(decision, &work, variant, row, line),
        });
    }
}

/// None where it panicked: the lane's requests have nothing to do with that.
async fn caught<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

fn compared<'d, M>(
    decision: &'d Decision<M>,
    work: &Work,
    variant: usize,
    row: usize,
    line: &Line,
) -> Option<Beside<'d>> {
    let State::Judged { verdict, score: Some(score) } = &line.state else { return None };
    let other = decision.program.score(variant, row, &work.scores);
    let judged = decision.program.policy.evaluate(&work.rows, row, Some(other));
    Some(judged.map_or(Beside::Failed, |judged| Beside::Judged {
        agrees: judged.outcome == verdict.outcome,
        apart: (other - score).abs(),
        score: Some(other),
        outcome: decision.program.policy.outcome(judged.outcome),
    }))
}

/// Rows that a model's score decided: others have nothing to be compared with.
fn scored(line: &Line) -> bool {
    matches!(line.state, State::Judged { score: Some(_), .. })
}

/// What came of a shadow for one row.
enum Beside<'d> {
    Dropped,
    Failed,
    Judged { agrees: bool, apart: f64, score: Option<f64>, outcome: &'d str },
}

/// `variant`: none is the policy.
fn each<'d, S: Sink>(
    lane: &Lane<S>,
    decision: &Decision<S::Model>,
    work: &Work,
    variant: Option<usize>,
    row: impl Fn(usize, &Line) -> Option<Beside<'d>>,
) {
    let of = variant.map_or(Shadow::Policy, |_| Shadow::Variant);
    for (place, line) in work.lines.iter().enumerate().filter(|(_, line)| scored(line)) {
        let beside = catch_unwind(AssertUnwindSafe(|| row(place, line)));
        let shadowed = match beside.unwrap_or(Some(Beside::Failed)) {
            None => continue,
            Some(Beside::Dropped) => Shadowed::Dropped,
            Some(Beside::Failed) => Shadowed::Failed,
            Some(Beside::Judged { agrees, apart, score, outcome }) => {
                record(lane, decision, line, Judged { variant, score, outcome, agrees });
                Shadowed::Compared { agrees, apart }
            }
        };
        lane.sink.shadowed(&decision.meter, of, shadowed);
    }
}

/// Leaves a record beside the decision's own, where there is a place for it: one that must be kept goes before.
fn record<S: Sink>(lane: &Lane<S>, decision: &Decision<S::Model>, line: &Line, judged: Judged<'_>) {
    let Some(recorder) = lane.desk.recorder.as_deref().filter(|_| line.offered) else { return };
    if recorder.reserve(1).is_ok() {
        let at_ns = lane.plane.means.wall.now_ns();
        recorder.offer(entry::shadow(recorder, decision, line.id, at_ns, judged));
    }
}

enum Ran {
    Scored,
    Dropped,
    Failed,
}

async fn run<S: Sink>(lane: &Lane<S>, decision: &Decision<S::Model>, work: &mut Work, variant: usize) -> Ran {
    let which = work.rows_where(scored);
    let mut ran = Ran::Scored;
    for &model in &decision.program.variants[variant].models {
        ran = run_model(lane, decision, work, model, &which).await;
        if !matches!(ran, Ran::Scored) {
            break;
        }
    }
    work.done_with(which);
    ran
}

/// What has its score already is not run again.
async fn run_model<S: Sink>(
    lane: &Lane<S>,
    decision: &Decision<S::Model>,
    work: &mut Work,
    model: usize,
    which: &[usize],
) -> Ran {
    let served = &decision.models[model];
    for some in which.chunks(served.rows_at_once()) {
        if some.iter().any(|&row| work.scores.get(row, model).is_nan()) {
            let Some(permit) = room(lane, served, some.len()) else { return Ran::Dropped };
            if run_some(lane, decision, work, model, some, permit).await.is_none() {
                return Ran::Failed;
            }
        }
    }
    Ran::Scored
}

async fn run_some<S: Sink>(
    lane: &Lane<S>,
    decision: &Decision<S::Model>,
    work: &mut Work,
    model: usize,
    which: &[usize],
    permit: Permit,
) -> Option<()> {
    let mut inputs = lane.spare();
    let program = &decision.program;
    program.tensors(model, &work.rows, which, &work.scores, &mut work.scratch, &mut inputs);
    let ticket = Ticket::new(permit, Priority::Low, None);
    let (ran, _permit) = batch::run(lane, &decision.models[model], inputs, ticket).await.ok()?;
    let scored = program.scores(model, &ran.outputs, which, &mut work.scores);
    lane.keep(ran.outputs);
    scored.ok()
}

/// A permit, where nobody else would wait for it.
fn room<S: Sink>(lane: &Lane<S>, model: &Arc<Model<S::Model>>, rows: usize) -> Option<Permit> {
    let plane = &lane.plane;
    let inline = model.service.inline(rows, plane.limits.inline_run_max);
    let here = inline && plane.home(model, lane.id).is_some();
    let home = if here { lane.id } else { plane.least_loaded(model, inline)? };
    let idle = plane.load_ns(home) == 0 && plane.gate.mostly_free() && model.gate.mostly_free();
    let ask = Ask { rows, priority: Priority::Low, deadline: None };
    idle.then(|| admit(lane, model, ask).ok()).flatten()
}
