//! What waits on a lane: jobs by model, models taking turns. Everything here is the lane's own; nothing is shared.

use crate::Model;
use crate::admission::Permit;
use flyball_core::{Fault, FaultKind, Nanos, Stage, Tensor};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// One request's turn at a model. `Send`: it may move to another lane.
pub(crate) struct Job<M> {
    pub(crate) model: Arc<Model<M>>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) rows: usize,
    pub(crate) deadline: Option<Nanos>,
    /// What the job was expected to cost when it was queued, so that the lane's load comes back to zero.
    pub(crate) cost_ns: u64,
    /// It came from another lane, and is not sent on: two lanes must not toss it to and fro.
    pub(crate) moved: bool,
    /// Held until the job is answered: it is what bounds the queues.
    pub(crate) _permit: Permit,
    pub(crate) reply: oneshot::Sender<Result<Ran, Fault>>,
}

/// What a job gets back.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outputs: Vec<Tensor>,
    pub(crate) began: Nanos,
    pub(crate) ended: Nanos,
}

impl<M> Job<M> {
    /// Whether two jobs' rows can lie in one batch: they may differ in the first axis only.
    fn joins(&self, other: &Job<M>) -> bool {
        self.inputs
            .iter()
            .zip(&other.inputs)
            .all(|(mine, theirs)| mine.shape.get(1..) == theirs.shape.get(1..))
    }

    /// Answers. A caller who has gone is not waited for.
    pub(crate) fn answer(self, result: Result<Ran, Fault>) {
        let _ = self.reply.send(result);
    }

    pub(crate) fn late(&self, now: Nanos) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    pub(crate) fn too_late() -> Fault {
        Fault::new(
            FaultKind::DeadlinePassed,
            Stage::Queue,
            "the deadline passed while the request waited for its turn",
        )
    }
}

/// A lane's jobs. Models take turns by whole batches.
pub(crate) struct Queue<M> {
    turns: VecDeque<VecDeque<Job<M>>>,
    jobs: usize,
    jobs_max: usize,
}

impl<M> Queue<M> {
    pub(crate) fn new(jobs_max: usize) -> Queue<M> {
        Queue { turns: VecDeque::new(), jobs: 0, jobs_max }
    }

    pub(crate) fn jobs(&self) -> usize {
        self.jobs
    }

    /// Takes a job in, or gives it back when the queue is full.
    pub(crate) fn push(&mut self, job: Job<M>) -> Result<(), Job<M>> {
        if self.jobs >= self.jobs_max {
            return Err(job);
        }
        self.jobs += 1;
        match self
            .turns
            .iter_mut()
            .find(|turn| turn.front().is_some_and(|front| Arc::ptr_eq(&front.model, &job.model)))
        {
            Some(turn) => turn.push_back(job),
            None => self.turns.push_back(VecDeque::from([job])),
        }
        Ok(())
    }

    /// The model whose turn it is, and the rows that wait for it.
    pub(crate) fn next(&self) -> Option<(&Arc<Model<M>>, usize)> {
        let turn = self.turns.front()?;
        Some((&turn.front()?.model, turn.iter().map(|job| job.rows).sum()))
    }

    /// Takes jobs of at most `rows` rows from the back of the next turn, for another lane to run.
    pub(crate) fn give(&mut self, rows: usize) -> Vec<Job<M>> {
        let mut given = Vec::new();
        let mut left = rows;
        let Some(turn) = self.turns.front_mut() else { return given };
        while turn.len() > 1 && turn.back().is_some_and(|job| !job.moved && job.rows <= left) {
            let Some(job) = turn.pop_back() else { break };
            left -= job.rows;
            given.push(job);
        }
        self.jobs -= given.len();
        given.reverse();
        given
    }

    /// The next batch: jobs of one model whose rows fit together and stay within its limit; never empty while jobs
    /// wait. A single job may exceed the limit: its rows are the caller's own batch.
    pub(crate) fn take(&mut self, batch: &mut Vec<Job<M>>) {
        let Some(mut turn) = self.turns.pop_front() else { return };
        let rows_max = turn.front().map_or(1, |front| front.model.rows_max());
        let mut rows = 0;
        while let Some(job) = turn.front() {
            let fits = batch.first().is_none_or(|first| rows + job.rows <= rows_max && first.joins(job));
            if !fits {
                break;
            }
            rows += job.rows;
            batch.extend(turn.pop_front());
        }
        self.jobs -= batch.len();
        if !turn.is_empty() {
            self.turns.push_back(turn);
        }
    }
}
