//! One request for a run of a model. `Send`: it may move to another lane.

use crate::admission::Permit;
use crate::backlog::Booking;
use crate::batch::{Ran, rows};
use crate::loaded::Model;
use crate::reply::Promise;
use crate::schedule::{BatchWait, ModelKey, Queued};
use crate::share;
use crate::stages::admit::broken;
use crate::stages::queue::RunTicket;
use flyball_core::triton_texts::DEADLINE;
use flyball_core::{Fault, FaultKind, Nanos, Priority, Stage, Tensor};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Job<M> {
    pub(crate) model: Arc<Model<M>>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) rows: usize,
    /// Rows of the latency table that one of its rows costs.
    pub(crate) scale: usize,
    pub(crate) priority: Priority,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) came: Nanos,
    /// The expected cost when it was queued. Kept, so that the lane's load returns to zero.
    pub(crate) cost_ns: u64,
    pub(crate) booking: Option<Booking>,
    /// It came from another lane and must not move again, or two lanes could pass it back and forth.
    pub(crate) moved: bool,
    /// Its batch failed, or it has rows without elements: it runs alone.
    pub(crate) alone: bool,
    /// Held until the job is answered, which bounds the queues. Returned with the outputs.
    pub(crate) permit: Permit,
    pub(crate) promise: Promise,
}

impl<M> Job<M> {
    pub(crate) fn new(
        model: &Arc<Model<M>>,
        inputs: Vec<Tensor>,
        ticket: RunTicket,
        promise: Promise,
        came: Nanos,
    ) -> Job<M> {
        let RunTicket { permit, priority, deadline, .. } = ticket;
        let rows = rows(&inputs);
        let scale = model.scale(&inputs, rows);
        let alone = inputs.iter().any(|input| input.size() == 0);
        Job {
            cost_ns: share::cost_ns(model, rows * scale),
            model: Arc::clone(model),
            inputs,
            rows,
            scale,
            priority,
            deadline,
            came,
            booking: None,
            moved: false,
            alone,
            permit,
            promise,
        }
    }

    /// Answers the caller, if it still waits.
    pub(crate) fn answer(self, result: Result<Ran, Fault>) {
        self.promise.answer(result.map(|ran| (ran, self.permit)));
    }

    /// The fault of a job that is dropped without a run.
    pub(crate) fn dropped(&self, now: Nanos) -> Fault {
        let pause = self.model.breaker.turns_away(self.came, now);
        pause.map_or_else(Self::too_late, |pause| broken(&self.model, Stage::Queue, pause))
    }

    pub(crate) fn too_late() -> Fault {
        let text = format!(
            "{DEADLINE}: it passed, or could no longer be met, while the request waited for its turn"
        );
        Fault::new(FaultKind::DeadlinePassed, Stage::Queue, text)
    }
}

impl<M> Queued for Job<M> {
    fn model(&self) -> ModelKey {
        self.model.key
    }

    fn share(&self) -> u32 {
        self.model.terms.share
    }

    fn batch_wait(&self) -> Option<BatchWait> {
        self.model.terms.batch_wait
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    fn came(&self) -> Nanos {
        self.came
    }

    fn rows(&self) -> usize {
        self.rows
    }

    /// Shapes may differ in the first axis only.
    fn joins(&self, other: &Job<M>) -> bool {
        let pairs = self.inputs.iter().zip(&other.inputs);
        self.model.batching.on()
            && !self.alone
            && !other.alone
            && pairs.into_iter().all(|(mine, theirs)| mine.shape.get(1..) == theirs.shape.get(1..))
    }

    fn wanted(&self) -> bool {
        self.promise.wanted() && !self.model.breaker.opened_after(self.came)
    }

    fn rows_within(&self, run_max: Duration) -> usize {
        let rows_max = self.model.batching.rows_max;
        if self.scale == 1 {
            return self.model.service.rows_within(run_max, rows_max);
        }
        (self.model.service.rows_within(run_max, rows_max * self.scale) / self.scale).min(rows_max)
    }

    fn run_time(&self, rows: usize) -> Duration {
        self.model.service.run_time(rows * self.scale)
    }
}
