//! The third walk, of a shadow: take → run → compare → record. Shadow variants and shadow policies are compared with the
//! decision, and never change an answer.
//!
//! It runs after the answer, on the rows as the request left them, one request at a time, and only while the lane is idle:
//! under load shadows are dropped first. Shadows read no feature and write no window; their results are counted and recorded.
//! A shadow that panics counts as failed, and the lane goes on.

use crate::admission::Permit;
use crate::row_buffers::{LentBuffers, Progress, RowBuffers, RowState};
use crate::stages::admit::{Demand, admit};
use crate::stages::queue::{RunTicket, queue};
use crate::{Decision, Lane, Model};
use flyball_core::{Priority, Shadow, Shadowed, Sink};
use flyball_decision::Scratch;
use flyball_journal::record_codec::{self, ShadowFacts};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Notify;

/// Maximum requests whose shadows wait on one lane; they hold their rows in memory.
const WAITING_MAX: usize = 64;
/// Maximum rows of those requests.
const ROWS_WAITING_MAX: usize = 4096;

pub(crate) struct Shadows<M> {
    waiting: RefCell<VecDeque<(Arc<Decision<M>>, LentBuffers)>>,
    /// The rows of waiting requests.
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

    fn push(&self, decision: Arc<Decision<M>>, buffers: LentBuffers) {
        self.rows.set(self.rows.get() + buffers.states.len());
        self.waiting.borrow_mut().push_back((decision, buffers));
        self.arrived.notify_one();
    }

    fn pop(&self) -> Option<(Arc<Decision<M>>, LentBuffers)> {
        let next = self.waiting.borrow_mut().pop_front()?;
        self.rows.set(self.rows.get() - next.1.states.len());
        Some(next)
    }
}

/// Queues a request's rows for its decision's shadows, if it has any.
pub(crate) fn offer<S: Sink>(lane: &Lane<S>, decision: Arc<Decision<S::Model>>, buffers: LentBuffers) {
    let program = &decision.program;
    if program.route.shadow.is_empty() && program.policy.shadow.is_none() {
        return;
    }
    let shadows = &lane.services.shadows;
    if !shadows.has_room(buffers.states.len()) {
        for &variant in &program.route.shadow {
            report(lane, &decision, &buffers, Some(variant), |_, _| Some(Comparison::Dropped));
        }
        return report(lane, &decision, &buffers, None, |_, _| {
            program.policy.shadow.as_ref().map(|_| Comparison::Dropped)
        });
    }
    shadows.push(decision, buffers);
}

/// Runs a lane's shadows, one after the other, for as long as it is polled.
pub(crate) async fn walk<S: Sink>(lane: &Lane<S>) {
    loop {
        match lane.services.shadows.pop() {
            Some((decision, buffers)) => compare(lane, &decision, buffers).await,
            None => lane.services.shadows.arrived.notified().await,
        }
    }
}

async fn compare<S: Sink>(lane: &Lane<S>, decision: &Decision<S::Model>, mut buffers: LentBuffers) {
    let program = &decision.program;
    report(lane, decision, &buffers, None, |row, state| {
        let Progress::Decided { verdict, score } = &state.progress else { return None };
        let shadow = program.policy.shadow.as_ref()?;
        let evaluated = shadow.evaluate(&buffers.rows, row, *score);
        // By name: its outcomes may be in another order.
        Some(evaluated.map_or(Comparison::Failed, |other| Comparison::Compared {
            agrees: shadow.outcome(other.outcome) == program.policy.outcome(verdict.outcome),
            apart: 0.0,
            score: *score,
            outcome: shadow.outcome(other.outcome),
        }))
    });
    for &variant in &program.route.shadow {
        let rows = buffers.rows_where(scored);
        let ran = caught(run(lane, decision, &mut buffers, variant, &rows)).await.unwrap_or_else(|| {
            // The panic may have left it in any state, and the next request reuses it.
            buffers.scratch = Scratch::default();
            Ran::Failed
        });
        buffers.done_with(rows);
        report(lane, decision, &buffers, Some(variant), |row, state| match ran {
            Ran::Dropped => Some(Comparison::Dropped),
            Ran::Failed => Some(Comparison::Failed),
            Ran::Scored => compared(decision, &buffers, variant, row, state),
        });
    }
}

/// None if the run panicked: that must not end the lane.
async fn caught<T>(run: impl Future<Output = T>) -> Option<T> {
    let mut run = pin!(run);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

fn compared<'d, M>(
    decision: &'d Decision<M>,
    buffers: &RowBuffers,
    variant: usize,
    row: usize,
    state: &RowState,
) -> Option<Comparison<'d>> {
    let Progress::Decided { verdict, score: Some(score) } = &state.progress else { return None };
    let other = decision.program.score(variant, row, &buffers.scores);
    let evaluated = decision.program.policy.evaluate(&buffers.rows, row, Some(other));
    Some(evaluated.map_or(Comparison::Failed, |evaluated| Comparison::Compared {
        agrees: evaluated.outcome == verdict.outcome,
        apart: (other - score).abs(),
        score: Some(other),
        outcome: decision.program.policy.outcome(evaluated.outcome),
    }))
}

/// Whether a model's score decided the row; other rows cannot be compared.
fn scored(state: &RowState) -> bool {
    matches!(state.progress, Progress::Decided { score: Some(_), .. })
}

/// A shadow's result for one row.
enum Comparison<'d> {
    Dropped,
    Failed,
    Compared { agrees: bool, apart: f64, score: Option<f64>, outcome: &'d str },
}

/// Counts and records the result for each row. `variant` is none for the shadow policy.
fn report<'d, S: Sink>(
    lane: &Lane<S>,
    decision: &Decision<S::Model>,
    buffers: &RowBuffers,
    variant: Option<usize>,
    row: impl Fn(usize, &RowState) -> Option<Comparison<'d>>,
) {
    let of = variant.map_or(Shadow::Policy, |_| Shadow::Variant);
    for (index, state) in buffers.states.iter().enumerate().filter(|(_, state)| scored(state)) {
        let compared = catch_unwind(AssertUnwindSafe(|| row(index, state)));
        let shadowed = match compared.unwrap_or(Some(Comparison::Failed)) {
            None => continue,
            Some(Comparison::Dropped) => Shadowed::Dropped,
            Some(Comparison::Failed) => Shadowed::Failed,
            Some(Comparison::Compared { agrees, apart, score, outcome }) => {
                let variant = variant.map(|variant| &*decision.program.variants[variant].name);
                let at_ns = lane.plane.services.wall.now_ns();
                let decision = &*decision.name;
                record(lane, state, &ShadowFacts { at_ns, decision, variant, score, outcome, agrees });
                Shadowed::Compared { agrees, apart }
            }
        };
        lane.sink.shadowed(&decision.meter, of, shadowed);
    }
}

/// Records the result, if the journal has a free slot: records of decisions come first.
fn record<S: Sink>(lane: &Lane<S>, state: &RowState, facts: &ShadowFacts<'_>) {
    let Some(recorder) = lane.recorder().filter(|_| state.offered) else { return };
    if recorder.reserve(1).is_ok() {
        recorder.offer(record_codec::shadow(recorder, state.id, facts));
    }
}

enum Ran {
    Scored,
    Dropped,
    Failed,
}

/// Runs the variant's model steps for these rows. Rows that have a model's score are not run again.
async fn run<S: Sink>(
    lane: &Lane<S>,
    decision: &Decision<S::Model>,
    buffers: &mut RowBuffers,
    variant: usize,
    rows: &[usize],
) -> Ran {
    for step in decision.steps.iter().filter(|step| step.variant == variant) {
        let model = &decision.models[step.model];
        for rows in rows.chunks(model.rows_at_once()) {
            if buffers.unscored(rows, step.model) {
                let Some(permit) = idle_permit(lane, model, rows.len()) else { return Ran::Dropped };
                if run_rows(lane, decision, buffers, step.model, rows, permit).await.is_none() {
                    return Ran::Failed;
                }
            }
        }
    }
    Ran::Scored
}

async fn run_rows<S: Sink>(
    lane: &Lane<S>,
    decision: &Decision<S::Model>,
    buffers: &mut RowBuffers,
    model: usize,
    rows: &[usize],
    permit: Permit,
) -> Option<()> {
    let mut inputs = lane.spare();
    let program = &decision.program;
    program.tensors(model, &buffers.rows, rows, &buffers.scores, &mut buffers.scratch, &mut inputs);
    let ticket = RunTicket::new(permit, Priority::Low, None);
    let (ran, _permit) = queue(lane, &decision.models[model], inputs, ticket).await.ok()?;
    let scored = program.scores(model, &ran.outputs, rows, &mut buffers.scores);
    lane.keep(ran.outputs);
    scored.ok()
}

/// A permit, if no request would wait because of it.
fn idle_permit<S: Sink>(lane: &Lane<S>, model: &Arc<Model<S::Model>>, rows: usize) -> Option<Permit> {
    let plane = &lane.plane;
    let inline = model.service.inline(rows, plane.limits.inline_run_max);
    let here = inline && plane.home(model, lane.id).is_some();
    let home = if here { lane.id } else { plane.least_loaded(model, inline)? };
    let idle = plane.load_ns(home) == 0 && plane.gate.mostly_free() && model.gate.mostly_free();
    let demand = Demand { rows, priority: Priority::Low, deadline: None };
    idle.then(|| admit(lane, model, demand).ok()).flatten()
}
