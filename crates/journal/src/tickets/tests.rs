//! Which futures are woken, and with which result.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Waits {
    ticket: u64,
    woken: Arc<Woken>,
}

impl Waits {
    fn new(ticket: u64) -> Waits {
        Waits { ticket, woken: Arc::default() }
    }

    fn poll(&self, tickets: &Tickets) -> Poll<Result<(), Unavailable>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        tickets.poll(self.ticket, &mut Context::from_waker(&waker))
    }

    fn times(&self) -> usize {
        self.woken.0.load(Ordering::Relaxed)
    }
}

fn waiting(tickets: &Tickets, count: u64) -> Vec<Waits> {
    let all: Vec<Waits> = (1..=count).map(Waits::new).collect();
    all.iter().for_each(|waits| assert_eq!(waits.poll(tickets), Poll::Pending));
    all
}

#[test]
fn a_commit_wakes_a_lane_once_and_the_one_it_wakes_wakes_the_others() {
    let tickets = Tickets::default();
    let all = waiting(&tickets, 100);
    tickets.keep(60);
    let woken: Vec<&Waits> = all.iter().filter(|waits| waits.times() > 0).collect();
    assert_eq!(woken.iter().map(|waits| waits.times()).sum::<usize>(), 1);
    assert_eq!(woken[0].poll(&tickets), Poll::Ready(Ok(())));
    assert!(all[..60].iter().all(|waits| waits.times() == 1));
    assert!(all[60..].iter().all(|waits| waits.times() == 0));
    assert!(!tickets.unseen());
    tickets.keep(100);
    assert_eq!(all[60..].iter().map(Waits::times).sum::<usize>(), 1);
}

#[test]
fn where_the_one_that_was_woken_is_gone_another_is() {
    let tickets = Tickets::default();
    let all = waiting(&tickets, 3);
    tickets.keep(3);
    assert_eq!(all.iter().map(Waits::times).sum::<usize>(), 1);
    assert!(tickets.unseen());
    tickets.wake_one();
    let next = all.iter().filter(|waits| waits.times() > 0).nth(1).expect("a second one is woken");
    assert_eq!(next.poll(&tickets), Poll::Ready(Ok(())));
    assert!(all.iter().all(|waits| waits.times() == 1));
}

#[test]
fn a_future_that_is_polled_again_and_again_leaves_room_for_others() {
    let tickets = Tickets::default();
    let (often, other) = (Waits::new(1), Waits::new(2));
    assert_eq!(other.poll(&tickets), Poll::Pending);
    for _ in 0..2 * WAITING_MAX {
        assert_eq!(often.poll(&tickets), Poll::Pending);
    }
    tickets.keep(2);
    assert_eq!(often.poll(&tickets), Poll::Ready(Ok(())));
    assert_eq!(other.times(), 1);
}

#[test]
fn entries_that_nobody_waits_for_and_that_are_lost_are_counted_once() {
    let tickets = Tickets::default();
    tickets.keep(1);
    for ticket in [1, 2, 3, 5] {
        assert_eq!(tickets.orphan(ticket), Ok(()));
    }
    assert_eq!(
        tickets.lose(4, Unavailable::Full),
        2,
        "those that were not kept before, nor are on their way"
    );
    assert_eq!(tickets.lose(4, Unavailable::Full), 0);
    assert_eq!(tickets.orphan(4), Err(Unavailable::Full), "whoever leaves later counts it himself");
    tickets.keep(5);
    assert_eq!(tickets.lose(6, Unavailable::Full), 0);
    assert!(tickets.losses().orphans.is_empty());
}

#[test]
fn after_a_loss_those_that_are_kept_take_no_lock() {
    let tickets = Tickets::default();
    assert_eq!(tickets.lose(1, Unavailable::Full), 0);
    tickets.keep(2);
    let _held = tickets.losses();
    assert_eq!(tickets.state(2), Some(Ok(())));
}

proptest! {
    /// Writer steps and results: each future is woken once settled, with its result.
    #[test]
    fn everyone_is_woken_once_settled_and_told_how(steps in prop::collection::vec((0..4_u8, 1..9_u64), 1..60)) {
        let tickets = Tickets::default();
        let mut offered = 0;
        let mut waits: Vec<Waits> = Vec::new();
        let mut losses: Vec<Result<(), Unavailable>> = Vec::new();
        for (step, count) in steps {
            match step {
                0 => {
                    let more: Vec<Waits> = (offered + 1..=offered + count).map(Waits::new).collect();
                    more.iter().for_each(|waits| assert_eq!(waits.poll(&tickets), Poll::Pending));
                    waits.extend(more);
                    offered += count;
                }
                1 | 2 => {
                    let last = (losses.len() as u64 + count).min(offered);
                    let fate = if step == 1 { Ok(()) } else { Err(Unavailable::Broken) };
                    match fate {
                        Ok(()) => tickets.keep(last),
                        Err(why) => prop_assert_eq!(tickets.lose(last, why), 0),
                    }
                    losses.resize(last as usize, fate);
                }
                _ => {}
            }
            // Polls woken futures, as an executor does.
            while let Some(place) = waits.iter().position(|waits| waits.times() > 0) {
                let one = waits.remove(place);
                let fate = losses.get(one.ticket as usize - 1);
                match one.poll(&tickets) {
                    Poll::Ready(told) => prop_assert_eq!(Some(&told), fate),
                    Poll::Pending => {
                        prop_assert_eq!(fate, None);
                        one.woken.0.store(0, Ordering::Relaxed);
                        waits.push(one);
                    }
                }
            }
            prop_assert!(waits.iter().all(|one| one.ticket > losses.len() as u64), "somebody sleeps on");
        }
    }
}
