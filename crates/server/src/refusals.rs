//! When refusals themselves cost too much: a refused client that asks again at once would have all of a lane's time. Where
//! most requests are refused while others wait, a connection that was refused is left unread for a while, so that refusing
//! takes a quarter of the lane's time at most, however many connections there are. The rest is for answers.

use std::cell::Cell;
use std::time::Duration;

/// What a refusal costs a lane, about, with a cold connection; four times that is each connection's part of the pause.
const REFUSAL_COST: Duration = Duration::from_micros(15);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The refused part of a lane's latest requests, in thousandths, smoothed over some hundred of them.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Cell<u32>);

impl Refusals {
    pub(crate) fn count(&self, refused: bool) {
        const SMOOTHED_OVER: u32 = 128;
        let sample = if refused { 1000 * SMOOTHED_OVER } else { 0 };
        // In units of a thousandth of a request, so that small steps are not lost.
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
