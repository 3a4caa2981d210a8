//! The schedule by itself: turns, classes, deadlines, windows.

use super::turn::PASSED_OVER_MAX;
use super::{BatchWait, ModelKey, Queued, RunLimit, Schedule, Taken};
use flyball_core::{Nanos, Priority};
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const COMPUTE: RunLimit = RunLimit { time: Duration::from_millis(10), strict: false };
const INLINE: RunLimit = RunLimit { time: MS, strict: true };

#[derive(Clone, Copy, Debug)]
struct Paper {
    number: usize,
    model: usize,
    share: u32,
    wait: Option<BatchWait>,
    priority: Priority,
    deadline: Option<Nanos>,
    rows: usize,
    shape: usize,
    wanted: bool,
    row_time: Duration,
}

impl Default for Paper {
    fn default() -> Paper {
        Paper {
            number: 0,
            model: 0,
            share: 100,
            wait: None,
            priority: Priority::Normal,
            deadline: None,
            rows: 1,
            shape: 0,
            wanted: true,
            row_time: MS / 10,
        }
    }
}

impl Queued for Paper {
    fn model(&self) -> ModelKey {
        ModelKey(self.model)
    }
    fn share(&self) -> u32 {
        self.share
    }
    fn batch_wait(&self) -> Option<BatchWait> {
        self.wait
    }
    fn priority(&self) -> Priority {
        self.priority
    }
    fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }
    fn came(&self) -> Nanos {
        Nanos(0)
    }
    fn rows(&self) -> usize {
        self.rows
    }
    fn joins(&self, other: &Paper) -> bool {
        self.shape == other.shape
    }
    fn wanted(&self) -> bool {
        self.wanted
    }
    fn rows_within(&self, run_max: Duration) -> usize {
        ((run_max.as_nanos() / self.row_time.as_nanos()) as usize).min(8)
    }
    fn run_time(&self, rows: usize) -> Duration {
        self.row_time * rows as u32
    }
}

fn schedule(jobs: impl IntoIterator<Item = Paper>) -> Schedule<Paper> {
    let mut schedule = Schedule::new();
    for (number, job) in jobs.into_iter().enumerate() {
        schedule.push(Paper { number, ..job });
    }
    schedule
}

fn take(schedule: &mut Schedule<Paper>, now: Nanos, limit: RunLimit) -> Taken<Paper> {
    let mut taken = Taken::default();
    schedule.take(now, limit, &mut taken);
    taken
}

fn numbers(jobs: &[Paper]) -> Vec<usize> {
    jobs.iter().map(|job| job.number).collect()
}

fn due(ms: u64) -> Option<Nanos> {
    Some(Nanos(ms * 1_000_000))
}

#[test]
fn the_earliest_deadline_goes_first_within_a_class_and_the_higher_class_before_it() {
    let job = |priority, deadline| Paper { priority, deadline, ..Paper::default() };
    let mut schedule = schedule([
        job(Priority::Normal, None),
        job(Priority::Normal, due(900)),
        job(Priority::Low, due(10)),
        job(Priority::Normal, due(500)),
        job(Priority::High, None),
    ]);
    let taken = take(&mut schedule, Nanos(0), COMPUTE);
    assert_eq!(numbers(&taken.batch), [4, 3, 1, 0, 2]);
}

#[test]
fn a_low_class_is_passed_over_only_so_often() {
    let mut schedule = schedule([Paper { priority: Priority::Low, shape: 1, ..Paper::default() }]);
    for number in 1..=20 {
        schedule.push(Paper { number, priority: Priority::High, ..Paper::default() });
        schedule.push(Paper { number, priority: Priority::High, ..Paper::default() });
        let began =
            take(&mut schedule, Nanos(0), RunLimit { time: MS / 10, strict: false }).batch[0].priority;
        if began == Priority::Low {
            assert_eq!(number, PASSED_OVER_MAX as usize + 1);
            return;
        }
    }
    panic!("the low class starved");
}

#[test]
fn what_cannot_be_done_in_time_or_is_not_wanted_any_more_is_dropped_and_never_run() {
    let slow = Paper { row_time: 2 * MS, ..Paper::default() };
    let mut schedule = schedule([
        Paper { deadline: due(6), ..slow },
        Paper { deadline: due(9), ..slow },
        Paper { wanted: false, ..slow },
        Paper { deadline: due(20), ..slow },
    ]);
    let taken = take(&mut schedule, Nanos(5_000_000), COMPUTE);
    assert_eq!(numbers(&taken.dropped), [0, 2]);
    assert_eq!(numbers(&taken.batch), [1, 3], "two runs of 2 ms end by 9");
    assert_eq!(schedule.jobs(), 0);
}

#[test]
fn a_batch_ends_where_the_tightest_deadline_in_it_would_break() {
    let mut schedule = schedule((0..8).map(|_| Paper { row_time: MS, deadline: due(5), ..Paper::default() }));
    assert_eq!(take(&mut schedule, Nanos(2_000_000), COMPUTE).batch.len(), 3);
}

#[test]
fn a_run_too_long_for_a_lane_with_sockets_is_sent_away_and_runs_alone_where_there_is_no_other() {
    let long = Paper { row_time: 3 * MS, ..Paper::default() };
    assert_eq!(numbers(&take(&mut schedule([long]), Nanos(0), INLINE).misplaced), [0]);
    let very_long = Paper { row_time: 50 * MS, ..Paper::default() };
    assert_eq!(numbers(&take(&mut schedule([very_long, very_long]), Nanos(0), COMPUTE).batch), [0]);
}

#[test]
fn jobs_of_other_shapes_are_stepped_over_and_keep_their_place() {
    let shaped = |shape| Paper { shape, ..Paper::default() };
    let mut schedule = schedule([shaped(1), shaped(2), shaped(1), shaped(2)]);
    assert_eq!(numbers(&take(&mut schedule, Nanos(0), INLINE).batch), [0, 2]);
    assert_eq!(numbers(&take(&mut schedule, Nanos(0), INLINE).batch), [1, 3]);
}

#[test]
fn a_window_is_waited_out_unless_the_batch_is_full_or_a_deadline_presses() {
    let wait = Some(BatchWait { rows: 4, window: 5 * MS });
    let job = Paper { wait, ..Paper::default() };
    let mut waiting = schedule([job]);
    assert_eq!(waiting.ready_at(Nanos(0)), Some(Nanos(5_000_000)));
    assert!(take(&mut waiting, Nanos(0), INLINE).batch.is_empty());
    assert_eq!(take(&mut waiting, Nanos(5_000_000), INLINE).batch.len(), 1);
    assert_eq!(schedule([job; 4]).ready_at(Nanos(7)), Some(Nanos(7)), "full");
    let pressed = schedule([Paper { deadline: due(4), ..job }]);
    assert_eq!(
        pressed.ready_at(Nanos(0)),
        Some(Nanos(4_000_000 - 2_000_000 - 400_000)),
        "in time for a full batch"
    );
}

#[test]
fn models_get_time_in_proportion_to_their_shares_whatever_their_runs_cost() {
    let costs = [MS / 20, MS, 7 * MS];
    let shares = [100, 100, 300];
    let mut spent = [Duration::ZERO; 3];
    let mut schedule = Schedule::new();
    let job =
        |model: usize| Paper { model, share: shares[model], row_time: costs[model], ..Paper::default() };
    (0..3).for_each(|model| (0..20).for_each(|_| schedule.push(job(model))));
    for _ in 0..20_000 {
        let taken = take(&mut schedule, Nanos(0), RunLimit { time: Duration::ZERO, strict: false });
        let model = taken.batch[0].model;
        spent[model] += costs[model];
        schedule.charge(ModelKey(model), costs[model]);
        schedule.push(job(model));
    }
    let part = |model: usize| spent[model].as_secs_f64() / f64::from(shares[model]);
    for model in 1..3 {
        assert!((part(model) / part(0) - 1.0).abs() < 0.03, "{spent:?}");
    }
}

#[test]
fn a_model_that_was_away_neither_hoards_time_nor_escapes_its_debt() {
    let mut schedule = Schedule::new();
    let job = |model| Paper { model, row_time: MS, ..Paper::default() };
    let one = RunLimit { time: Duration::ZERO, strict: false };
    // Model 1 took 50 ms at once and left; model 0 went on alone for 10 ms.
    schedule.push(job(1));
    assert_eq!(take(&mut schedule, Nanos(0), one).batch[0].model, 1);
    schedule.charge(ModelKey(1), 50 * MS);
    let run = |schedule: &mut Schedule<Paper>, pushed: &[usize]| {
        pushed.iter().for_each(|&model| schedule.push(job(model)));
        let model = take(schedule, Nanos(0), one).batch[0].model;
        schedule.charge(ModelKey(model), MS);
        model
    };
    (0..10).for_each(|_| assert_eq!(run(&mut schedule, &[0]), 0));
    // Back again, it waits for the rest of its debt, and no longer.
    schedule.push(job(1));
    let before = (0..100).take_while(|_| run(&mut schedule, &[0]) == 0).count();
    assert!((35..=45).contains(&before), "{before} ms of model 0 before model 1");
}

#[test]
fn what_is_given_away_is_never_the_first_and_never_more_than_asked_for() {
    let mut schedule = schedule((0..10).map(|_| Paper::default()));
    let mut given = Vec::new();
    schedule.give(4, |_| true, &mut given);
    assert_eq!((given.len(), schedule.jobs()), (4, 6));
    schedule.give(100, |_| true, &mut given);
    assert_eq!((given.len(), schedule.jobs()), (9, 1));
    assert_eq!(take(&mut schedule, Nanos(0), INLINE).batch[0].number, 0);
}

proptest! {
    #[test]
    fn every_job_comes_out_once_and_places_are_bounded(
        jobs in prop::collection::vec((0..200_usize, 0..3_usize, 1..4_usize, 0..3_usize), 0..300)
    ) {
        let papers = jobs.iter().map(|&(model, class, rows, shape)| Paper {
            model, rows, shape, priority: Priority::ALL[class], ..Paper::default()
        });
        let mut schedule = schedule(papers);
        let mut out = Vec::new();
        while schedule.jobs() > 0 {
            let batch = take(&mut schedule, Nanos(0), INLINE).batch;
            prop_assert!(!batch.is_empty(), "the lane must not idle while jobs wait");
            prop_assert!(batch.len() == 1 || batch.iter().map(|job| job.rows).sum::<usize>() <= 8);
            prop_assert!(batch.iter().all(|job| job.model == batch[0].model && job.shape == batch[0].shape));
            schedule.charge(ModelKey(batch[0].model), MS);
            out.extend(numbers(&batch));
        }
        out.sort_unstable();
        prop_assert_eq!(out, (0..jobs.len()).collect::<Vec<_>>());
        prop_assert!(schedule.turns.len() <= 200);
    }
}
