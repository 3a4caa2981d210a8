//! Monotonic time: nanoseconds since process start, or a manual clock in tests.
//!
//! Wall-clock time does not belong here: it may step, and no duration may be computed from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A point in monotonic time, in nanoseconds since the clock's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The time from `earlier` to `self`; zero if they are out of order.
    pub fn since(self, earlier: Nanos) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub fn after(self, duration: Duration) -> Nanos {
        Nanos(self.0.saturating_add(nanos(duration)))
    }
}

/// Converts a duration to whole nanoseconds, saturating at 584 years.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Clone, Debug)]
enum Source {
    System(Instant),
    Manual(Arc<AtomicU64>),
}

/// A source of monotonic time. Cloning is cheap, and clones agree.
#[derive(Clone, Debug)]
pub struct Clock(Source);

impl Clock {
    pub fn system() -> Clock {
        Clock(Source::System(Instant::now()))
    }

    /// A clock that only [`Clock::advance`] moves, for simulation and tests.
    pub fn manual() -> Clock {
        Clock(Source::Manual(Arc::new(AtomicU64::new(0))))
    }

    pub fn now(&self) -> Nanos {
        match &self.0 {
            Source::System(origin) => Nanos(nanos(origin.elapsed())),
            Source::Manual(manual) => Nanos(manual.load(Ordering::Relaxed)),
        }
    }

    /// Moves a manual clock. Has no effect on a system clock.
    pub fn advance(&self, duration: Duration) {
        if let Source::Manual(manual) = &self.0 {
            manual.fetch_add(nanos(duration), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_manual_clock_move_together() {
        let clock = Clock::manual();
        let twin = clock.clone();
        clock.advance(Duration::from_micros(7));
        assert_eq!(twin.now(), Nanos(7_000));
    }

    #[test]
    fn a_duration_between_points_out_of_order_is_zero() {
        assert_eq!(Nanos(5).since(Nanos(9)), Duration::ZERO);
    }
}
