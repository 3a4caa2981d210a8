//! The way to a run and back: the job goes to the lane that will run it, and its caller waits. What happens on that lane is
//! the second walk (`batch.rs`).

use crate::admission::Permit;
use crate::decision_walk::DecisionWalk;
use crate::job::Job;
use crate::plan::{ModelStep, Plan};
use crate::reply::Answered;
use crate::stages::admit::Admitted;
use crate::walk::Walk;
use crate::{Lane, Model};
use flyball_core::{Fault, FaultKind, Nanos, Priority, Sink, Stage, Tensor};
use std::sync::Arc;
use std::time::Duration;

/// Beyond its deadline, or beyond the longest wait and run, a caller is answered even if the lane that has its job hangs.
const GRACE: Duration = Duration::from_millis(50);

/// What a run is requested with. The permit is proof of admission, and comes back with the outputs.
pub(crate) struct RunTicket {
    pub(crate) permit: Permit,
    pub(crate) priority: Priority,
    pub(crate) deadline: Option<Nanos>,
    /// How long after its deadline it is waited for, where another lane has it.
    pub(crate) grace: Duration,
}

impl RunTicket {
    pub(crate) fn new(permit: Permit, priority: Priority, deadline: Option<Nanos>) -> RunTicket {
        RunTicket { permit, priority, deadline, grace: GRACE }
    }
}

/// Runs one request's inputs, in a batch with whatever else is ready.
pub(crate) async fn queue<S: Sink>(
    lane: &Lane<S>,
    model: &Arc<Model<S::Model>>,
    inputs: Vec<Tensor>,
    ticket: RunTicket,
) -> Answered {
    let (deadline, grace) = (ticket.deadline, ticket.grace);
    let (promise, mut waiting) = lane.slots.pair();
    let here = lane.accept(Job::new(model, inputs, ticket, promise, lane.now()))?;
    match if here { waiting.unless_moved().await } else { None } {
        Some(ran) => ran,
        None => patiently(lane, model, deadline, grace, waiting).await,
    }
}

/// Waits for another lane, but not for ever: that lane may hang inside a model.
async fn patiently<S: Sink>(
    lane: &Lane<S>,
    model: &Model<S::Model>,
    deadline: Option<Nanos>,
    grace: Duration,
    waiting: impl Future<Output = Answered>,
) -> Answered {
    let longest = model.terms.queue_wait_max + model.terms.run_max;
    let left = deadline.map_or(longest, |deadline| deadline.since(lane.now()).min(longest));
    tokio::time::timeout(left + grace, waiting).await.unwrap_or_else(|_elapsed| {
        let text = format!("no lane took up the request within {} ms; try again shortly", left.as_millis());
        let hung = Fault::new(FaultKind::LaneFull, Stage::Queue, text).retry_after(left);
        let late = deadline.is_some_and(|deadline| deadline <= lane.now());
        Err(if late { Job::<S::Model>::too_late() } else { hung })
    })
}

impl<S: Sink> DecisionWalk<'_, S> {
    pub(crate) fn ticket(&self, permit: Permit, plan: &Plan<'_>, walk: &Walk<S>) -> RunTicket {
        let ticket = RunTicket::new(permit, self.ask.priority, plan.deadline);
        // A remedy answers in its place, and in time.
        if plan.deadline < walk.deadline { RunTicket { grace: Duration::ZERO, ..ticket } } else { ticket }
    }

    /// One bad row must not fail its neighbours: each row without a score runs alone.
    pub(crate) async fn run_apart(
        &mut self,
        step: &ModelStep,
        rows: &[usize],
        plan: &Plan<'_>,
        walk: &mut Walk<S>,
    ) -> Option<Admitted> {
        let mut admitted = None;
        for row in rows {
            let row = std::slice::from_ref(row);
            let ran = self.run(step, row, admitted.take(), plan, walk).await;
            admitted = self.settle(row, ran);
        }
        admitted
    }

    /// Fails the rows of a run that failed. What it was admitted with goes to the next run.
    pub(crate) fn settle(&mut self, rows: &[usize], ran: Result<Admitted, Fault>) -> Option<Admitted> {
        ran.map_err(|fault| self.buffers.fail(rows, &fault)).ok()
    }
}
