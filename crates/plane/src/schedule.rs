//! The queue of one lane, and which jobs run next. Models take turns by deficit round-robin in measured time; within a model
//! the higher priority class goes first, and within a class the earliest deadline.
//!
//! A plain data structure without clock, thread or socket: its caller passes the time. The simulation in `simulation.rs` uses
//! it as lanes do, so its results hold for serving.

mod turn;

#[cfg(test)]
mod tests;

use flyball_core::{Nanos, Priority};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use turn::Turn;

#[cfg(test)]
pub(crate) use turn::PASSED_OVER_MAX;

/// Identifies a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelKey(pub(crate) usize);

impl ModelKey {
    /// A new, unique key.
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

/// How long a run may block a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimit {
    pub(crate) time: Duration,
    /// Jobs that exceed the limit alone move to another lane. If not strict, they run here, each alone.
    pub(crate) strict: bool,
}

/// The facts that the schedule needs about a job.
pub(crate) trait Queued {
    fn model(&self) -> ModelKey;
    /// The model's share of the lane's time, relative to the other models'.
    fn share(&self) -> u32;
    fn batch_wait(&self) -> Option<BatchWait>;
    fn priority(&self) -> Priority;
    fn deadline(&self) -> Option<Nanos>;
    fn came(&self) -> Nanos;
    fn rows(&self) -> usize;
    /// Whether both may share a batch.
    fn joins(&self, other: &Self) -> bool;
    /// Whether its caller still waits and the model's breaker permits the run.
    fn wanted(&self) -> bool;
    /// The maximum rows whose run is expected to stay within `run_max`; zero if one row exceeds it.
    fn rows_within(&self, run_max: Duration) -> usize;
    /// How long a run of `rows` rows is expected to take.
    fn run_time(&self, rows: usize) -> Duration;
}

/// The jobs that [`Schedule::take`] removed. Reused from batch to batch.
pub(crate) struct Taken<J> {
    /// Jobs of one model for one run. Empty if there is nothing to run.
    pub(crate) batch: Vec<J>,
    /// The maximum rows of the batch, for the fill rate.
    pub(crate) rows_max: usize,
    /// Jobs that would be late, were abandoned, or whose model's breaker opened: they are not run.
    pub(crate) dropped: Vec<J>,
    /// Jobs whose run would block this lane too long: they move to another.
    pub(crate) misplaced: Vec<J>,
}

impl<J> Default for Taken<J> {
    fn default() -> Taken<J> {
        Taken { batch: Vec::new(), rows_max: 0, dropped: Vec::new(), misplaced: Vec::new() }
    }
}

/// The time that a model of share [`SHARE_USUAL`] earns at each turn.
const QUANTUM_NS: i64 = 100_000;
pub(crate) const SHARE_USUAL: u32 = 100;
/// Maximum models without jobs that keep their turn, with its buffers and debt.
const IDLE_MAX: usize = 64;

pub(crate) struct Schedule<J> {
    turns: Vec<Turn<J>>,
    /// The index of the current turn. It stays until that model has spent its credit.
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

    /// The sum of the shares of all models with jobs here.
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

    /// A turn for a model that has none: a reused idle turn if there are enough, or a new one.
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

    /// The first job of the model that would run next, and its waiting rows. An estimate: turns do not advance.
    pub(crate) fn next(&self) -> Option<(&J, usize)> {
        let (later, first) = self.turns.split_at(self.at.min(self.turns.len()));
        let turn = first.iter().chain(later).find(|turn| turn.jobs > 0)?;
        Some((turn.first()?, turn.rows))
    }

    /// When the next batch can start; later than `now` if all jobs wait for batch windows.
    pub(crate) fn ready_at(&self, now: Nanos) -> Option<Nanos> {
        self.turns.iter().filter(|turn| turn.jobs > 0).map(|turn| turn.ready_at(now)).min()
    }

    /// Removes the next batch, and every job before it that must not run.
    pub(crate) fn take(&mut self, now: Nanos, limit: RunLimit, taken: &mut Taken<J>) {
        while taken.batch.is_empty() {
            let Some(place) = self.choose(now) else { break };
            let turn = &mut self.turns[place];
            let before = turn.jobs;
            turn.take(now, limit, taken);
            self.jobs -= before - turn.jobs;
        }
    }

    /// Charges the cost of a run to its model's credit.
    pub(crate) fn charge(&mut self, model: ModelKey, took: Duration) {
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.key == model) {
            turn.spend(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX));
        }
    }

    /// Chooses the turn: the current one while it has credit, else the next that gets some.
    ///
    /// Debts are paid round by round. If all are in debt, the rounds until the first is out of debt are skipped at once: the
    /// lane never idles while a job could run.
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

    /// Removes jobs of at most `rows` rows from the far end of the next model's queue, for another lane. The first job stays:
    /// it is about to run here.
    pub(crate) fn give(&mut self, rows: usize, may_go: impl Fn(&J) -> bool, given: &mut Vec<J>) {
        let count = self.turns.len();
        let places = (0..count).map(|step| (self.at + step) % count);
        let Some(place) = places.into_iter().find(|&place| self.turns[place].jobs > 0) else { return };
        let turn = &mut self.turns[place];
        let before = turn.jobs;
        turn.give(rows, may_go, given);
        self.jobs -= before - turn.jobs;
    }

    /// All waiting jobs, in any order.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &J> {
        self.turns.iter().flat_map(Turn::waiting)
    }

    /// Removes every job that is no longer wanted.
    pub(crate) fn sweep(&mut self, unwanted: &mut Vec<J>) {
        for turn in &mut self.turns {
            let before = turn.jobs;
            turn.sweep(unwanted);
            self.jobs -= before - turn.jobs;
        }
    }
}
