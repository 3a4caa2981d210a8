//! The invariants of every history.

use super::world::World;
use crate::job::Job;
use crate::schedule::{PASSED_OVER_MAX, Queued, Taken};
use crate::testing::Runs;
use crate::{Lane, Model};
use flyball_core::{Nanos, Priority};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
pub(super) struct Checks {
    /// Batches that passed over a waiting class, by lane, model and class.
    passed_over: HashMap<(usize, usize, usize), u32>,
    /// By lane, the time of each model since all of the lane's models were waiting.
    contest: HashMap<usize, HashMap<usize, (Duration, u32)>>,
    longest: Duration,
}

fn due(job: &Job<()>) -> Nanos {
    job.deadline.unwrap_or(Nanos(u64::MAX))
}

impl Checks {
    pub(super) fn taken(&mut self, lane: &Lane<Runs>, taken: &Taken<Job<()>>) {
        let schedule = lane.schedule.borrow();
        let Some(first) = taken.batch.first() else {
            // Work conservation: a lane idles only if it has no jobs, or all wait for a batch window.
            let waits = schedule.ready_at(lane.now()).is_none_or(|ready_at| ready_at > lane.now());
            assert!(waits, "jobs wait on a lane that idles");
            return;
        };
        let rows: usize = taken.batch.iter().map(|job| job.rows).sum();
        assert!(taken.batch.len() == 1 || rows <= first.model.batching.rows_max, "a batch of {rows} rows");
        let ends = lane.now().after(first.run_time(rows));
        assert!(
            taken.batch.len() == 1 || first.run_time(rows) <= lane.limit.time,
            "a batch holds its lane too long"
        );
        for job in &taken.batch {
            assert!(Arc::ptr_eq(&job.model, &first.model), "two models in one batch");
            assert!(job.wanted(), "an abandoned job was run");
            assert!(ends <= due(job), "a run began that ends after a deadline");
        }
        let same = |job: &&Job<()>| Arc::ptr_eq(&job.model, &first.model);
        for priority in Priority::ALL {
            let taken = taken.batch.iter().filter(|job| job.priority == priority).map(due).max();
            let left = schedule.waiting().filter(same).filter(|job| job.priority == priority).map(due).min();
            if let (Some(taken), Some(left)) = (taken, left) {
                assert!(taken <= left, "a later deadline went before an earlier one of its class");
            }
        }
        for class in 0..Priority::ALL.len() {
            let waits = schedule.waiting().filter(same).any(|job| job.priority.index() == class);
            let passed = self.passed_over.entry((lane.id, first.model.key.0, class)).or_default();
            let over = waits && first.priority.index() < class;
            *passed = if over {
                *passed + 1
            } else if waits && first.priority.index() > class {
                *passed
            } else {
                0
            };
            assert!(*passed <= PASSED_OVER_MAX + 1, "class {class} was passed over {passed} times");
        }
    }

    /// Fairness: while the same models wait on a lane all the time, their times stay in proportion to their shares.
    pub(super) fn ran(&mut self, id: usize, model: &Arc<Model<()>>, took: Duration, lane: &Lane<Runs>) {
        self.longest = self.longest.max(took);
        let schedule = lane.schedule.borrow();
        // Models that wait for a batch window, and jobs that would be dropped, do not compete for time.
        let feasible = |job: &Job<()>| job.wanted() && lane.now().after(job.run_time(job.rows)) <= due(job);
        let competes = |job: &&Job<()>| job.model.terms.batch_wait.is_none() && feasible(job);
        let mut waiting: Vec<_> =
            schedule.waiting().filter(competes).map(|job| (job.model.key.0, job.model.terms.share)).collect();
        waiting.sort_unstable();
        waiting.dedup();
        let contest = self.contest.entry(id).or_default();
        let mut same: Vec<_> = contest.iter().map(|(key, (_, share))| (*key, *share)).collect();
        same.sort_unstable();
        if same != waiting {
            *contest = waiting.iter().map(|&(key, share)| (key, (Duration::ZERO, share))).collect();
        }
        if let Some((spent, _)) = contest.get_mut(&model.key.0) {
            *spent += took;
        }
        let parts = || contest.values().map(|(spent, share)| spent.as_secs_f64() / f64::from(*share) * 100.0);
        let apart = parts().fold(0.0, f64::max) - parts().fold(f64::MAX, f64::min);
        // One model may be ahead by its last run while the other started with the debt of one, and vice versa; with half of the
        // usual share a run counts twice.
        let most = 2.0 * 4.0 * self.longest.as_secs_f64() + 0.001;
        assert!(
            contest.len() < 2 || apart <= most,
            "models are {apart} s apart, more than {most}: {contest:?}"
        );
    }

    pub(super) fn at_the_end(world: &World, seed: u64) {
        let plane = &world.lanes[0].0.plane;
        assert!(plane.backlogs().all(|backlog| backlog.is_zero()), "seed {seed}: load is left over");
        assert_eq!(plane.gate.inside(), 0, "seed {seed}: a place is held");
        for (model, _, _) in &world.scene.models {
            assert_eq!(model.gate.inside(), 0, "seed {seed}: a place is held");
        }
    }
}
