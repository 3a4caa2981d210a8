//! One model's turn on a lane: its jobs by priority class and deadline, and its credit of time.

use super::{BatchWait, ModelKey, QUANTUM_NS, Queued, RunLimit, SHARE_USUAL, Taken};
use flyball_core::{Nanos, Priority, nanos};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Maximum batches in a row that begin with a higher class while a lower one waits.
pub(crate) const PASSED_OVER_MAX: u32 = 8;
/// The runtime's timers fire up to a millisecond late, and waking takes time too.
const TIMER_LATE_MAX: Duration = Duration::from_millis(2);
/// Maximum jobs of other shapes that are skipped to fill a batch.
const STEPPED_OVER_MAX: usize = 64;
/// Maximum debt: a model must not pay for a very long run forever.
const DEBT_NS_MAX: i64 = 1_000_000_000;

pub(super) struct Turn<J> {
    pub(super) key: ModelKey,
    pub(super) share: u32,
    wait: Option<BatchWait>,
    /// Unspent time; a debt if negative.
    pub(super) credit_ns: i64,
    classes: [BinaryHeap<Entry<J>>; Priority::ALL.len()],
    pub(super) jobs: usize,
    pub(super) rows: usize,
    /// For each class, the batches in a row that began with a higher class while it waited.
    passed_over: [u32; Priority::ALL.len()],
}

struct Entry<J> {
    /// `u64::MAX` without a deadline.
    due: Nanos,
    number: u64,
    job: J,
}

impl<J> Entry<J> {
    fn key(&self) -> (Nanos, u64) {
        (self.due, self.number)
    }
}

/// Reversed: the standard heap returns the greatest first, and the earliest must be first.
impl<J> Ord for Entry<J> {
    fn cmp(&self, other: &Entry<J>) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<J> PartialOrd for Entry<J> {
    fn partial_cmp(&self, other: &Entry<J>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<J> PartialEq for Entry<J> {
    fn eq(&self, other: &Entry<J>) -> bool {
        self.key() == other.key()
    }
}

impl<J> Eq for Entry<J> {}

/// What happens to the first job of a class.
enum Verdict {
    Joins,
    Drop,
    Misplaced,
    StepOver,
    Full,
}

impl<J: Queued> Turn<J> {
    pub(super) fn new(job: &J) -> Turn<J> {
        Turn {
            key: job.model(),
            share: job.share(),
            wait: job.batch_wait(),
            credit_ns: 0,
            classes: std::array::from_fn(|_| BinaryHeap::new()),
            jobs: 0,
            rows: 0,
            passed_over: [0; Priority::ALL.len()],
        }
    }

    /// Reuses an empty turn and its buffers for another model.
    pub(super) fn reseat(&mut self, job: &J) {
        (self.key, self.share, self.wait) = (job.model(), job.share(), job.batch_wait());
        (self.credit_ns, self.passed_over) = (0, [0; Priority::ALL.len()]);
    }

    pub(super) fn first(&self) -> Option<&J> {
        self.classes.iter().find_map(|class| class.peek()).map(|entry| &entry.job)
    }

    pub(super) fn push(&mut self, job: J, number: u64) {
        self.jobs += 1;
        self.rows += job.rows();
        let due = job.deadline().unwrap_or(Nanos(u64::MAX));
        self.classes[job.priority().index()].push(Entry { due, number, job });
    }

    /// When a batch may begin: now, or at the end of the first job's window, or earlier if a deadline requires it.
    pub(super) fn ready_at(&self, now: Nanos) -> Nanos {
        let Some(wait) = self.wait.filter(|wait| self.rows < wait.rows) else { return now };
        let entries = || self.classes.iter().flatten();
        let opened = entries().map(|entry| entry.job.came()).min().unwrap_or(now);
        let last_start = |entry: &Entry<J>| {
            Nanos(entry.due.0.saturating_sub(nanos(entry.job.run_time(wait.rows) + TIMER_LATE_MAX)))
        };
        let deadline = entries().map(last_start).min().unwrap_or(now);
        opened.after(wait.window).min(deadline)
    }

    pub(super) fn earn(&mut self, rounds: i64) {
        let earned = self.quantum_ns().saturating_mul(rounds);
        self.credit_ns = self.credit_ns.saturating_add(earned);
        // Only models with jobs earn credit; others only pay their debts.
        let most = if self.jobs > 0 { self.quantum_ns() } else { 0 };
        self.credit_ns = self.credit_ns.min(most);
    }

    pub(super) fn spend(&mut self, nanos: i64) {
        self.credit_ns = self.credit_ns.saturating_sub(nanos).max(-DEBT_NS_MAX);
    }

    /// Rounds until the next one gives credit.
    pub(super) fn rounds_in_debt(&self) -> i64 {
        (-self.credit_ns).max(0) / self.quantum_ns()
    }

    fn quantum_ns(&self) -> i64 {
        (QUANTUM_NS * i64::from(self.share) / i64::from(SHARE_USUAL)).max(1)
    }

    /// Removes this model's next batch. Classes in order, except that a starved class goes first.
    pub(super) fn take(&mut self, now: Nanos, limit: RunLimit, taken: &mut Taken<J>) {
        let starved =
            |class: &usize| self.passed_over[*class] >= PASSED_OVER_MAX && !self.classes[*class].is_empty();
        let begins = (0..self.classes.len()).filter(starved).max_by_key(|&class| self.passed_over[class]);
        let order = begins.into_iter().chain((0..self.classes.len()).filter(|class| Some(*class) != begins));
        let mut room = Room { now, limit, rows: 0, rows_max: 0, tightest: Nanos(u64::MAX) };
        for class in order {
            if !self.take_class(class, &mut room, taken) {
                break;
            }
        }
        taken.rows_max = room.rows_max;
        let Some(began) = taken.batch.first().map(|job| job.priority().index()) else { return };
        for (class, passed_over) in self.passed_over.iter_mut().enumerate() {
            let waits = class > began && !self.classes[class].is_empty();
            *passed_over = if waits {
                *passed_over + 1
            } else if class == began {
                0
            } else {
                *passed_over
            };
        }
    }

    /// Adds fitting jobs of one class to the batch; false once the batch is full.
    fn take_class(&mut self, class: usize, room: &mut Room, taken: &mut Taken<J>) -> bool {
        let mut stepped_over: SmallVec<[Entry<J>; 4]> = SmallVec::new();
        let mut open = true;
        while open {
            let Some(entry) = self.classes[class].peek() else { break };
            let verdict = room.classify(&entry.job, taken.batch.first());
            if matches!(verdict, Verdict::Full) || stepped_over.len() > STEPPED_OVER_MAX {
                open = false;
                break;
            }
            let Some(entry) = self.classes[class].pop() else { break };
            if let Verdict::StepOver = verdict {
                stepped_over.push(entry);
                continue;
            }
            self.jobs -= 1;
            self.rows -= entry.job.rows();
            match verdict {
                Verdict::Joins => {
                    room.add(&entry.job);
                    taken.batch.push(entry.job);
                }
                Verdict::Misplaced => taken.misplaced.push(entry.job),
                _ => taken.dropped.push(entry.job),
            }
        }
        self.classes[class].extend(stepped_over);
        open
    }

    pub(super) fn give(&mut self, rows: usize, may_go: impl Fn(&J) -> bool, given: &mut Vec<J>) {
        let mut left = rows;
        for class in self.classes.iter_mut().rev() {
            // The end of a heap's buffer holds none of its earliest entries, which is enough here.
            let mut entries = std::mem::take(class).into_vec();
            while self.jobs > 1
                && let Some(entry) = entries.pop_if(|entry| may_go(&entry.job) && entry.job.rows() <= left)
            {
                left -= entry.job.rows();
                self.jobs -= 1;
                self.rows -= entry.job.rows();
                given.push(entry.job);
            }
            *class = BinaryHeap::from(entries);
        }
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> impl Iterator<Item = &J> {
        self.classes.iter().flatten().map(|entry| &entry.job)
    }

    pub(super) fn sweep(&mut self, unwanted: &mut Vec<J>) {
        for class in &mut self.classes {
            let mut entries = std::mem::take(class).into_vec();
            for entry in entries.extract_if(.., |entry| !entry.job.wanted()) {
                self.jobs -= 1;
                self.rows -= entry.job.rows();
                unwanted.push(entry.job);
            }
            *class = BinaryHeap::from(entries);
        }
    }
}

/// The remaining room of a batch: rows by the model's limit, time by the tightest deadline in it.
struct Room {
    now: Nanos,
    limit: RunLimit,
    rows: usize,
    rows_max: usize,
    tightest: Nanos,
}

impl Room {
    fn classify<J: Queued>(&mut self, job: &J, first: Option<&J>) -> Verdict {
        let due = job.deadline().unwrap_or(Nanos(u64::MAX));
        if !job.wanted() || self.now.after(job.run_time(job.rows())) > due {
            return Verdict::Drop;
        }
        let Some(first) = first else {
            self.rows_max = job.rows_within(self.limit.time).max(1);
            // A job with more rows than a batch may have is the caller's own batch: it runs alone.
            let held_too_long = job.run_time(job.rows()) > self.limit.time;
            return if self.limit.strict && held_too_long { Verdict::Misplaced } else { Verdict::Joins };
        };
        let rows = self.rows + job.rows();
        if rows > self.rows_max || self.now.after(first.run_time(rows)) > self.tightest.min(due) {
            return Verdict::Full;
        }
        if first.joins(job) { Verdict::Joins } else { Verdict::StepOver }
    }

    fn add<J: Queued>(&mut self, job: &J) {
        self.rows += job.rows();
        self.tightest = self.tightest.min(job.deadline().unwrap_or(Nanos(u64::MAX)));
    }
}
