//! Queues a job on the lane that will run it, and waits for the result. That lane's part is the second walk (`batch.rs`).

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

/// How long after its deadline, or after the longest wait and run, a caller is answered if its job's lane hangs.
const GRACE: Duration = Duration::from_millis(50);

/// The terms of a run. The permit proves admission, and is returned with the outputs.
pub(crate) struct RunTicket {
    pub(crate) permit: Permit,
    pub(crate) priority: Priority,
    pub(crate) deadline: Option<Nanos>,
    /// How long to wait past the deadline if the job is on another lane.
    pub(crate) grace: Duration,
}

impl RunTicket {
    pub(crate) fn new(permit: Permit, priority: Priority, deadline: Option<Nanos>) -> RunTicket {
        RunTicket { permit, priority, deadline, grace: GRACE }
    }
}

/// Runs one request's inputs, in a batch with other ready requests.
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

/// Waits for another lane for a bounded time: it may hang inside a model.
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
        let text = format!("no lane ran the request within {} ms; try again shortly", left.as_millis());
        let hung = Fault::new(FaultKind::LaneFull, Stage::Queue, text).retry_after(left);
        let late = deadline.is_some_and(|deadline| deadline <= lane.now());
        Err(if late { Job::<S::Model>::too_late() } else { hung })
    })
}

impl<S: Sink> DecisionWalk<'_, S> {
    pub(crate) fn ticket(&self, permit: Permit, plan: &Plan<'_>, walk: &Walk<S>) -> RunTicket {
        let ticket = RunTicket::new(permit, self.ask.priority, plan.deadline);
        // A remedy must still answer in time.
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

    /// Fails the rows of a failed run, or returns the permit for the next run.
    pub(crate) fn settle(&mut self, rows: &[usize], ran: Result<Admitted, Fault>) -> Option<Admitted> {
        ran.map_err(|fault| self.buffers.fail(rows, &fault)).ok()
    }
}
