//! The models. Each is run by a test of its name.

use crate::lane::settled;
use crate::ring::Ring;
use crate::sleep::WriterSleep;
use crate::tickets::Tickets;
use flyball_core::{DecisionId, JournalRecord, Unavailable};
use loom::model::Builder;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

/// Switches between threads in one history beyond those that blocking forces: nearly all faults need two or fewer.
const SWITCHES_MAX: usize = 3;
const WHY: Unavailable = Unavailable::Behind;

fn in_every_order(history: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(SWITCHES_MAX);
    builder.check(history);
}

/// Runs a writer beside this thread, which is the lane.
fn beside<T: Default + Send + Sync + 'static, R>(writer: fn(&T), lane: impl FnOnce(&T) -> R) -> (Arc<T>, R) {
    let shared = Arc::new(T::default());
    let writing = thread::spawn({
        let shared = Arc::clone(&shared);
        move || writer(&shared)
    });
    let told = lane(&shared);
    writing.join().expect("the writer ends");
    (shared, told)
}

pub fn a_caller_is_woken_by_the_commit_that_it_waits_for() {
    in_every_order(|| {
        let (_, told) = beside(|tickets: &Tickets| tickets.keep(1), |tickets| settled(tickets, &[1]));
        assert_eq!(told, [Ok(())]);
    });
}

pub fn one_commit_wakes_every_caller_of_the_lane() {
    in_every_order(|| {
        let (_, told) = beside(|tickets: &Tickets| tickets.keep(2), |tickets| settled(tickets, &[1, 2]));
        assert_eq!(told, [Ok(()), Ok(())]);
    });
}

pub fn a_caller_that_waits_for_a_later_commit_is_woken_by_that_one() {
    let commits = |tickets: &Tickets| {
        tickets.keep(1);
        tickets.keep(2);
    };
    in_every_order(move || {
        let (_, told) = beside(commits, |tickets| settled(tickets, &[2]));
        assert_eq!(told, [Ok(())]);
    });
}

pub fn a_lost_record_fails_its_caller_and_no_other() {
    let writer = |tickets: &Tickets| {
        tickets.keep(1);
        assert_eq!(tickets.lose(2, WHY), 0, "a caller waits for it");
    };
    in_every_order(move || {
        let (_, told) = beside(writer, |tickets| settled(tickets, &[1, 2]));
        assert_eq!(told, [Ok(()), Err(WHY)]);
    });
}

/// By the writer, which lost it, or by the caller, who is told.
pub fn a_lost_record_without_a_caller_is_counted_once() {
    in_every_order(|| {
        let tickets = Arc::new(Tickets::default());
        let losing = thread::spawn({
            let tickets = Arc::clone(&tickets);
            move || tickets.lose(1, WHY)
        });
        let told = tickets.orphan(1);
        let counted = losing.join().expect("the writer ends");
        assert_eq!(counted + u64::from(told.is_err()), 1);
    });
}

pub fn a_record_that_was_kept_is_never_counted_as_lost() {
    in_every_order(|| {
        let (tickets, told) = beside(|tickets: &Tickets| tickets.keep(1), |tickets| tickets.orphan(1));
        assert_eq!(told, Ok(()));
        assert_eq!(tickets.lose(2, WHY), 0);
    });
}

/// A ring, and a clock that both sides read.
#[derive(Default)]
struct Timed {
    ring: Ring,
    clock: AtomicU64,
}

impl Timed {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }
}

pub fn a_ring_knows_its_bytes_and_takes_no_record_for_younger_than_it_is() {
    let writer = |timed: &Timed| {
        for _ in 0..2 {
            let now = timed.now();
            timed.ring.drain(8, now, drop);
        }
    };
    in_every_order(move || {
        // A record has come once it is in the ring; its time is read then.
        let (timed, arrivals) = beside(writer, |timed| {
            [1, 2].map(|number| {
                let record = Box::new(JournalRecord { id: DecisionId(number), ..JournalRecord::default() });
                assert!(timed.ring.push(record, || timed.now()).is_ok(), "it has room");
                timed.now()
            })
        });
        let ring = &timed.ring;
        assert_eq!((ring.offered(), ring.bytes()), (2, ring.len() * size_of::<JournalRecord>()));
        assert!(ring.since_ns() <= arrivals.get(2 - ring.len()).copied());
    });
}

/// What the writer would miss, and its sleep.
#[derive(Default)]
struct Writing {
    record: AtomicBool,
    sleep: WriterSleep,
}

const LONG: Duration = Duration::MAX;

pub fn a_sleeping_writer_is_woken_by_a_record_or_sees_it() {
    in_every_order(|| {
        let writer = |writing: &Writing| {
            writing.sleep.write_here();
            let there = || writing.record.load(Ordering::Relaxed);
            loop {
                writing.sleep.begin_round();
                if there() {
                    return;
                }
                writing.sleep.sleep(LONG, there);
            }
        };
        beside(writer, |writing: &Writing| {
            writing.record.store(true, Ordering::Relaxed);
            writing.sleep.wake(false);
        });
    });
}

pub fn a_napping_writer_is_woken_by_whoever_waits() {
    in_every_order(|| {
        let writer = |writing: &Writing| {
            writing.sleep.write_here();
            loop {
                writing.sleep.begin_round();
                if writing.record.load(Ordering::Relaxed) {
                    return;
                }
                writing.sleep.nap(LONG);
            }
        };
        beside(writer, |writing: &Writing| {
            writing.record.store(true, Ordering::Relaxed);
            writing.sleep.wake(true);
        });
    });
}
