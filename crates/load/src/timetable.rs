//! One thread's arrivals in real time: those of the warm-up, then the measured ones.

use crate::arrivals::Offsets;
use std::time::Duration;
use tokio::time::Instant;

/// The first number of warm-up requests, so that the measured ones always have the same ids.
const WARMUP_FIRST: u64 = 1 << 40;

/// A request to send: its number, which is its id, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) sequence: u64,
    pub(crate) at: Instant,
}

pub(crate) struct Timetable {
    warmup: Offsets,
    begun: Instant,
    measured: Offsets,
    measured_from: Option<Instant>,
    measuring: bool,
    next: Option<Due>,
}

impl Timetable {
    pub(crate) fn new(warmup: Offsets, measured: Offsets, begun: Instant) -> Timetable {
        let mut table =
            Timetable { warmup, begun, measured, measured_from: None, measuring: false, next: None };
        table.advance();
        table
    }

    /// Measured requests are due from then on. Call it once, before that time.
    pub(crate) fn begin(&mut self, from: Instant) {
        if self.measured_from.replace(from).is_some() {
            return;
        }
        if self.next.is_none_or(|next| next.at >= from) {
            self.advance();
        }
    }

    /// The time of the next action; `None` once nothing is left.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.next.map(|next| next.at)
    }

    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Due> {
        let due = self.next.filter(|next| next.at <= now)?;
        self.advance();
        Some(due)
    }

    fn advance(&mut self) {
        if !self.measuring {
            let next = due(&mut self.warmup, self.begun).filter(|next| match self.measured_from {
                Some(from) => next.at < from,
                None => true,
            });
            self.measuring = next.is_none() && self.measured_from.is_some();
            self.next = next.map(|next| Due { sequence: WARMUP_FIRST + next.sequence, ..next });
        }
        if let Some(from) = self.measured_from.filter(|_| self.measuring) {
            self.next = due(&mut self.measured, from);
        }
    }
}

fn due(offsets: &mut Offsets, start: Instant) -> Option<Due> {
    let (sequence, offset_s) = offsets.next()?;
    Some(Due { sequence, at: start + Duration::from_secs_f64(offset_s) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Arrivals;
    use std::sync::Arc;

    fn constant(rate_per_s: f64, until_s: f64, first: u64) -> Offsets {
        Offsets::new(Arc::new(Arrivals::Constant { rate_per_s }), until_s, first, 2)
    }

    #[test]
    fn the_measured_requests_begin_anew_at_their_own_start_whatever_the_warm_up_left() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut table = Timetable::new(constant(100.0, 3600.0, 1), constant(50.0, 0.1, 1), begun);
        assert_eq!(table.take_due(at(9)), None);
        assert_eq!(table.take_due(at(10)), Some(Due { sequence: WARMUP_FIRST + 1, at: at(10) }));
        table.begin(at(45));
        let mut left = Vec::new();
        while let Some(due) = table.take_due(at(1000)) {
            left.push((due.sequence, due.at));
        }
        let warmup = (WARMUP_FIRST + 3, at(30));
        assert_eq!(left, [warmup, (1, at(65)), (3, at(105))]);
        assert_eq!(table.next_at(), None);
    }

    #[test]
    fn without_a_warm_up_nothing_is_due_before_measuring_begins_and_all_of_it_after() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut table = Timetable::new(constant(100.0, 0.0, 0), constant(50.0, 0.1, 0), begun);
        assert_eq!(table.take_due(at(50)), None);
        table.begin(at(20));
        table.begin(at(20));
        assert_eq!(table.take_due(at(50)), Some(Due { sequence: 0, at: at(20) }));
        assert_eq!(table.next_at(), Some(at(60)));
    }

    #[test]
    fn a_warm_up_whose_next_request_is_far_off_does_not_hold_up_the_measured_ones() {
        let begun = Instant::now();
        let mut table = Timetable::new(constant(0.01, 3600.0, 1), constant(50.0, 0.1, 0), begun);
        table.begin(begun + Duration::from_millis(5));
        assert_eq!(table.next_at(), Some(begun + Duration::from_millis(5)));
    }
}
