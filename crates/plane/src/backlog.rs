//! The expected cost of waiting and running jobs, by priority class and deadline, readable from any lane.
//!
//! Admission uses it: only jobs that go first make a new request wait. Sums of relaxed counters are an estimate.

use flyball_core::{Nanos, Priority};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Deadlines are sorted into slots of 2^22 ns, about 4 ms, up to a quarter of a second ahead. Later deadlines share one
/// sum with jobs that have none.
const SLOT_BITS: u32 = 22;
const SLOTS: u64 = 64;

#[derive(Debug)]
pub(crate) struct Backlog {
    classes: [Class; Priority::ALL.len()],
}

#[derive(Debug)]
struct Class {
    total_ns: AtomicU64,
    slots_ns: [AtomicU64; SLOTS as usize],
}

/// One job's booking, removed when the job is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Booking {
    priority: Priority,
    slot: Option<usize>,
    cost_ns: u64,
}

impl Backlog {
    pub(crate) fn new() -> Backlog {
        let class =
            || Class { total_ns: AtomicU64::new(0), slots_ns: std::array::from_fn(|_| AtomicU64::new(0)) };
        Backlog { classes: std::array::from_fn(|_| class()) }
    }

    pub(crate) fn add(
        &self,
        priority: Priority,
        deadline: Option<Nanos>,
        now: Nanos,
        cost_ns: u64,
    ) -> Booking {
        let class = &self.classes[priority.index()];
        let slot = within_reach(deadline, now).map(place);
        class.total_ns.fetch_add(cost_ns, Relaxed);
        if let Some(slot) = slot {
            class.slots_ns[slot].fetch_add(cost_ns, Relaxed);
        }
        Booking { priority, slot, cost_ns }
    }

    pub(crate) fn remove(&self, booking: Booking) {
        let class = &self.classes[booking.priority.index()];
        class.total_ns.fetch_sub(booking.cost_ns, Relaxed);
        if let Some(slot) = booking.slot {
            class.slots_ns[slot].fetch_sub(booking.cost_ns, Relaxed);
        }
    }

    /// The cost of jobs that go before one of this class and deadline: all of higher classes, and of its own class those
    /// that are due no later.
    pub(crate) fn ahead_ns(&self, priority: Priority, deadline: Option<Nanos>, now: Nanos) -> u64 {
        let (higher, own) = self.classes.split_at(priority.index());
        let higher: u64 = higher.iter().map(|class| class.total_ns.load(Relaxed)).sum();
        let Some(own) = own.first() else { return higher };
        let total = own.total_ns.load(Relaxed);
        let before = match within_reach(deadline, now) {
            Some(slot) if total > 0 => (slot_of(now)..=slot)
                .map(|slot| own.slots_ns[place(slot)].load(Relaxed))
                .sum::<u64>()
                .min(total),
            _ => total,
        };
        higher.saturating_add(before)
    }
}

fn slot_of(time: Nanos) -> u64 {
    time.0 >> SLOT_BITS
}

/// The slot of a deadline; none if it is too far ahead.
fn within_reach(deadline: Option<Nanos>, now: Nanos) -> Option<u64> {
    deadline.map(slot_of).filter(|slot| slot.saturating_sub(slot_of(now)) < SLOTS)
}

fn place(slot: u64) -> usize {
    usize::try_from(slot % SLOTS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const NOW: Nanos = Nanos(1_000_000_000);

    fn due(ms: u64) -> Option<Nanos> {
        Some(NOW.after(Duration::from_millis(ms)))
    }

    #[test]
    fn only_higher_classes_and_earlier_deadlines_stand_ahead() {
        let backlog = Backlog::new();
        backlog.add(Priority::Normal, due(100), NOW, 5);
        backlog.add(Priority::Normal, None, NOW, 7);
        backlog.add(Priority::High, due(200), NOW, 11);
        backlog.add(Priority::Low, due(10), NOW, 13);
        assert_eq!(backlog.ahead_ns(Priority::Normal, due(50), NOW), 11);
        assert_eq!(backlog.ahead_ns(Priority::Normal, due(150), NOW), 11 + 5);
        assert_eq!(backlog.ahead_ns(Priority::Normal, None, NOW), 11 + 5 + 7);
        assert_eq!(backlog.ahead_ns(Priority::High, due(50), NOW), 0);
        assert_eq!(backlog.ahead_ns(Priority::Low, None, NOW), 11 + 5 + 7 + 13);
    }

    proptest! {
        #[test]
        fn a_backlog_is_empty_again_once_all_are_answered(
            jobs in prop::collection::vec((0..3_usize, prop::option::of(0..600_u64), 1..1_000_u64), 0..50)
        ) {
            let backlog = Backlog::new();
            let bookings: Vec<_> = jobs
                .iter()
                .map(|&(class, ms, cost)| backlog.add(Priority::ALL[class], ms.and_then(due), NOW, cost))
                .collect();
            let sum: u64 = jobs.iter().map(|job| job.2).sum();
            prop_assert_eq!(backlog.ahead_ns(Priority::Low, None, NOW), sum);
            bookings.into_iter().for_each(|booking| backlog.remove(booking));
            for slot in backlog.classes.iter().flat_map(|class| class.slots_ns.iter().chain([&class.total_ns])) {
                prop_assert_eq!(slot.load(Relaxed), 0);
            }
        }
    }
}
