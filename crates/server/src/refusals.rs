//! Limits the time that refusals take: clients that retry at once could occupy a whole lane.
//!
//! While most requests are refused and others wait, a refused connection is left unread for a while, so that refusals
//! take at most a quarter of the lane's time, for any number of connections.

use std::cell::Cell;
use std::time::Duration;

/// The approximate cost of a refusal on a cold connection; each connection adds four times that to the pause.
const REFUSAL_COST: Duration = Duration::from_micros(15);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The refused share of a lane's latest requests, in thousandths, smoothed over about a hundred requests.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Cell<u32>);

impl Refusals {
    pub(crate) fn count(&self, refused: bool) {
        const SMOOTHED_OVER: u32 = 128;
        let sample = if refused { 1000 * SMOOTHED_OVER } else { 0 };
        // In thousandths of a request, so that small steps are not lost.
        self.0.set((self.0.get() * (SMOOTHED_OVER - 1) + sample) / SMOOTHED_OVER);
    }

    pub(crate) fn dominate(&self) -> bool {
        self.0.get() > 500 * 128
    }
}

pub(crate) fn pause(connections: usize) -> Duration {
    let each = REFUSAL_COST * 4;
    (each * u32::try_from(connections).unwrap_or(u32::MAX).min(1 << 20)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_dominate_once_most_requests_are_refused_and_no_longer_when_they_are_not() {
        let refusals = Refusals::default();
        let after = |requests: usize, refused_of_ten: usize| {
            (0..requests).for_each(|place| refusals.count(place % 10 < refused_of_ten));
            refusals.dominate()
        };
        assert!(!after(1000, 4));
        assert!(after(1000, 7));
        assert!(!after(1000, 2));
    }

    #[test]
    fn all_connections_together_are_refused_no_more_than_a_quarter_of_the_time() {
        for connections in [16, 2048] {
            let refusals_per_s = connections as f64 / pause(connections).as_secs_f64();
            assert!(refusals_per_s * REFUSAL_COST.as_secs_f64() <= 0.251);
        }
        assert_eq!(pause(1_000_000), PAUSE_MAX);
    }
}
