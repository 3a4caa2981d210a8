//! What waits on one lane, and what runs next. Models take turns by deficit round-robin in measured time; within a model
//! the higher priority class goes first, and within a class the earliest deadline.
//!
//! A plain data structure without clock, thread or socket: a lane asks it with the time in hand, and so does the
//! simulation in `simulation.rs`, which is why what that proves holds for what serves.

mod turn;

#[cfg(test)]
mod tests;

use flyball_core::{Nanos, Priority};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use turn::Turn;

#[cfg(test)]
pub(crate) use turn::PASSED_OVER_MAX;

/// Tells models apart; equal keys are the same model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelKey(pub(crate) usize);

impl ModelKey {
    /// A key that no other model has or had.
    pub(crate) fn next() -> ModelKey {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        ModelKey(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Wait up to `window` for `rows` rows before a batch is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchWait {
    pub rows: usize,
    pub window: Duration,
}

/// How long a run may hold a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimit {
    pub(crate) time: Duration,
    /// Jobs that exceed it alone belong elsewhere. Where not, they run, each by itself: there is no lane behind this one.
    pub(crate) strict: bool,
}

/// What the schedule must know of a job.
pub(crate) trait Queued {
    fn model(&self) -> ModelKey;
    /// The model's share of the lane's time, relative to the other models'.
    fn share(&self) -> u32;
    fn batch_wait(&self) -> Option<BatchWait>;
    fn priority(&self) -> Priority;
    fn deadline(&self) -> Option<Nanos>;
    fn came(&self) -> Nanos;
    fn rows(&self) -> usize;
    /// Whether the rows of both may lie in one batch.
    fn joins(&self, other: &Self) -> bool;
    /// Whether anybody still waits for the answer, and the model may be asked for it.
    fn wanted(&self) -> bool;
    /// The most rows whose run is expected to stay within `run_max`; zero when one row does not.
    fn rows_within(&self, run_max: Duration) -> usize;
    /// How long a run of `rows` rows is expected to take.
    fn run_time(&self, rows: usize) -> Duration;
}

/// What [`Schedule::take`] took out. Reused from batch to batch.
pub(crate) struct Taken<J> {
    /// One run: jobs of one model that fit together. Empty when there was nothing to run.
    pub(crate) batch: Vec<J>,
    /// The rows that the batch may have had, for the fill rate.
    pub(crate) rows_max: usize,
    /// Jobs that would be late, that nobody waits for, or whose model broke meanwhile: they cost no compute.
    pub(crate) dropped: Vec<J>,
    /// Jobs whose run would hold this lane too long: they belong on another.
    pub(crate) misplaced: Vec<J>,
}

impl<J> Default for Taken<J> {
    fn default() -> Taken<J> {
        Taken { batch: Vec::new(), rows_max: 0, dropped: Vec::new(), misplaced: Vec::new() }
    }
}

/// A model whose share is [`SHARE_USUAL`] earns this much time at each of its turns.
const QUANTUM_NS: i64 = 100_000;
pub(crate) const SHARE_USUAL: u32 = 100;
/// Models without jobs keep their place, with its buffers and its debt, until so many do.
const IDLE_MAX: usize = 64;

pub(crate) struct Schedule<J> {
    turns: Vec<Turn<J>>,
    /// Whose turn it is. It stays until that model has used up what it earned.
    at: usize,
    jobs: usize,
    /// Jobs pushed so far: equal deadlines go in order of arrival.
    pushed: u64,
}

impl<J: Queued> Schedule<J> {
    pub(crate) fn new() -> Schedule<J> {
        Schedule { turns: Vec::new(), at: 0, jobs: 0, pushed: 0 }
    }

    pub(crate) fn jobs(&self) -> usize {
        self.jobs
    }

    /// The shares of all models that have something to run here.
    pub(crate) fn shares(&self) -> u64 {
        self.turns.iter().filter(|turn| turn.jobs > 0).map(|turn| u64::from(turn.share)).sum()
    }

    pub(crate) fn push(&mut self, job: J) {
        self.jobs += 1;
        self.pushed += 1;
        let key = job.model();
        let place = match self.turns.iter().position(|turn| turn.key == key) {
            Some(place) => place,
            None => self.seat(&job),
        };
        self.turns[place].push(job, self.pushed);
    }

    /// A place for a model that has none: the first idle one beyond those that are kept, or a new one.
    fn seat(&mut self, job: &J) -> usize {
        let idle = self.turns.iter().filter(|turn| turn.jobs == 0).count();
        let reused = (idle >= IDLE_MAX).then(|| self.turns.iter().position(|turn| turn.jobs == 0)).flatten();
        if let Some(place) = reused {
            self.turns[place].reseat(job);
            return place;
        }
        self.turns.push(Turn::new(job));
        self.turns.len() - 1
    }

    /// The model that would run next and the rows that wait for it, as far as that can be said without moving on.
    pub(crate) fn next(&self) -> Option<(&J, usize)> {
        let (later, first) = self.turns.split_at(self.at.min(self.turns.len()));
        let turn = first.iter().chain(later).find(|turn| turn.jobs > 0)?;
        Some((turn.first()?, turn.rows))
    }

    /// When to look again: the earliest end of a batch window, where all that waits is waiting for one.
    pub(crate) fn ready_at(&self, now: Nanos) -> Option<Nanos> {
        self.turns.iter().filter(|turn| turn.jobs > 0).map(|turn| turn.ready_at(now)).min()
    }

    /// Takes out the next batch, and every job before it that must not run.
    pub(crate) fn take(&mut self, now: Nanos, limit: RunLimit, taken: &mut Taken<J>) {
        while taken.batch.is_empty() {
            let Some(place) = self.choose(now) else { break };
            let turn = &mut self.turns[place];
            let before = turn.jobs;
            turn.take(now, limit, taken);
            self.jobs -= before - turn.jobs;
        }
    }

    /// Books what a run of a model has cost against what it earned.
    pub(crate) fn charge(&mut self, model: ModelKey, took: Duration) {
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.key == model) {
            turn.spend(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX));
        }
    }

    /// The model whose turn it is: the one at hand while it has credit, else the next that gets some. Debts are paid
    /// round by round, and when all are in debt the rounds until the first is out of it are skipped at once: the lane
    /// never idles while a job could run.
    fn choose(&mut self, now: Nanos) -> Option<usize> {
        let ready = |turn: &Turn<J>| turn.jobs > 0 && turn.ready_at(now) <= now;
        let count = self.turns.len();
        if self.at < count && ready(&self.turns[self.at]) && self.turns[self.at].credit_ns > 0 {
            return Some(self.at);
        }
        let rounds = self.turns.iter().filter(|turn| ready(turn)).map(Turn::rounds_in_debt).min()?;
        for turn in &mut self.turns {
            turn.earn(rounds);
        }
        for step in 1..=count {
            let place = (self.at + step) % count;
            let turn = &mut self.turns[place];
            turn.earn(1);
            if ready(turn) && turn.credit_ns > 0 {
                self.at = place;
                return Some(place);
            }
        }
        None
    }

    /// Takes jobs of at most `rows` rows from the far end of the next model's queue, for another lane to run. The
    /// first job stays: it is about to run here.
    pub(crate) fn give(&mut self, rows: usize, may_go: impl Fn(&J) -> bool, given: &mut Vec<J>) {
        let count = self.turns.len();
        let places = (0..count).map(|step| (self.at + step) % count);
        let Some(place) = places.into_iter().find(|&place| self.turns[place].jobs > 0) else { return };
        let turn = &mut self.turns[place];
        let before = turn.jobs;
        turn.give(rows, may_go, given);
        self.jobs -= before - turn.jobs;
    }

    /// All that waits, in no order.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &J> {
        self.turns.iter().flat_map(Turn::waiting)
    }

    /// Takes out every job that is not wanted any more.
    pub(crate) fn sweep(&mut self, unwanted: &mut Vec<J>) {
        for turn in &mut self.turns {
            let before = turn.jobs;
            turn.sweep(unwanted);
            self.jobs -= before - turn.jobs;
        }
    }
}
