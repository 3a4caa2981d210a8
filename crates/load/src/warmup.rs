//! Detects a steady load.
//!
//! The last windows of the warm-up have the same number of responses and the same median latency, except for
//! chance, and neither only rises nor only falls.

use crate::histogram;
use crate::plan::Warmup;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Windows compared; at most the last half of the shortest warm-up.
const WINDOWS: usize = 5;
const WINDOW_MOST: Duration = Duration::from_millis(200);
const WINDOW_LEAST: Duration = Duration::from_millis(20);

/// Allowed deviation of a window from the mean, besides chance.
const COUNT_TOLERANCE: f64 = 0.1;
const MEDIAN_TOLERANCE: f64 = 0.2;
/// Smaller differences are attributed to the machine, not the server.
const MEDIAN_NOISE_US: f64 = 50.0;

/// One window of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    answers: u64,
    median_us: f64,
}

/// The current window.
#[derive(Debug)]
pub(crate) struct WindowTally(Histogram<u64>);

impl WindowTally {
    pub(crate) fn new() -> WindowTally {
        WindowTally(histogram::wide())
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        histogram::record(&mut self.0, latency);
    }

    /// Ends the current window and starts the next.
    pub(crate) fn take(&mut self) -> Window {
        let window = Window { answers: self.0.len(), median_us: self.0.value_at_quantile(0.5) as f64 / 1e3 };
        self.0.reset();
        window
    }
}

pub(crate) fn window_length(warmup: Warmup) -> Duration {
    let part = Duration::from_secs_f64(warmup.least_s) / (2 * WINDOWS as u32);
    part.clamp(WINDOW_LEAST, WINDOW_MOST)
}

/// Whether the last windows show no trend. Five that only rise, or only fall, occur by chance once in sixty
/// times.
pub(crate) fn steady(windows: &[Window]) -> bool {
    let Some(last) = windows.len().checked_sub(WINDOWS).map(|first| &windows[first..]) else { return false };
    let answers = mean(last.iter().map(|window| window.answers as f64));
    let median = mean(last.iter().map(|window| window.median_us));
    // Counts of independent arrivals vary by their square root.
    let count_room = COUNT_TOLERANCE * answers + 3.0 * answers.sqrt();
    let median_room = (MEDIAN_TOLERANCE * median).max(MEDIAN_NOISE_US);
    let near = last.iter().all(|window| {
        window.answers > 0
            && (window.answers as f64 - answers).abs() <= count_room
            && (window.median_us - median).abs() <= median_room
    });
    near && !drifts(last, |window| window.answers as f64) && !drifts(last, |window| window.median_us)
}

fn drifts(windows: &[Window], figure: impl Fn(&Window) -> f64) -> bool {
    let mut pairs = windows.windows(2).map(|pair| (figure(&pair[0]), figure(&pair[1])));
    pairs.clone().all(|(before, after)| before < after) || pairs.all(|(before, after)| before > after)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(seen: &[(u64, f64)]) -> Vec<Window> {
        seen.iter().map(|&(answers, median_us)| Window { answers, median_us }).collect()
    }

    #[test]
    fn a_load_is_steady_once_five_windows_are_alike() {
        let alike = [(1000, 300.0), (1020, 310.0), (980, 290.0), (1010, 305.0), (990, 300.0)];
        assert!(steady(&windows(&alike)));
        assert!(!steady(&windows(&alike[1..])), "four are too few");
        let mut after_a_start = vec![(3, 90_000.0)];
        after_a_start.extend(alike);
        assert!(steady(&windows(&after_a_start)), "what was before does not matter");
    }

    #[test]
    fn a_trend_a_gap_and_a_growing_queue_are_not_steady() {
        let cases = [
            ("rate", [(500, 300.0), (700, 300.0), (900, 300.0), (1100, 300.0), (1300, 300.0)]),
            ("gap", [(1000, 300.0), (1000, 300.0), (0, 0.0), (1000, 300.0), (1000, 300.0)]),
            ("queue", [(1000, 1e4), (1000, 2e4), (1000, 3e4), (1000, 4e4), (1000, 5e4)]),
            ("drift", [(1000, 300.0), (1001, 310.0), (999, 320.0), (1000, 330.0), (1002, 340.0)]),
            ("nothing", [(0, 0.0); 5]),
        ];
        for (name, seen) in cases {
            assert!(!steady(&windows(&seen)), "{name}");
        }
    }

    #[test]
    fn chance_at_low_rates_is_no_trend() {
        assert!(steady(&windows(&[(9, 310.0), (14, 280.0), (7, 330.0), (10, 300.0), (12, 290.0)])));
    }

    #[test]
    fn windows_fit_twice_into_the_shortest_warm_up() {
        let length = |least_s| window_length(Warmup { least_s, most_s: 60.0 }).as_millis();
        assert_eq!((length(0.0), length(1.0), length(30.0)), (20, 100, 200));
    }
}
