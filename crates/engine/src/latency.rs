//! Run time by number of rows, measured on this machine in CPU time.
//!
//! Roughly from the probe's runs during the load, and then precisely in the background. A model that was
//! never run has no estimates.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    pub rows: usize,
    pub p50_us: f64,
    pub p99_us: f64,
}

#[derive(Debug, Default)]
pub struct LatencyTable {
    /// One run of each size; empty if there was none.
    rough: Vec<LatencyPoint>,
    surveyed: OnceLock<Vec<LatencyPoint>>,
}

impl LatencyTable {
    /// A table of rough points, in row order.
    pub fn of(rough: Vec<LatencyPoint>) -> LatencyTable {
        LatencyTable { rough, surveyed: OnceLock::new() }
    }

    pub fn points(&self) -> Option<&[LatencyPoint]> {
        let points = self.surveyed.get().unwrap_or(&self.rough);
        (!points.is_empty()).then_some(points)
    }

    /// Whether the points are surveyed, not rough.
    pub fn surveyed(&self) -> bool {
        self.surveyed.get().is_some()
    }

    /// The median run of `rows` rows: interpolated between measured sizes, extrapolated beyond the last.
    pub fn estimate(&self, rows: usize) -> Option<Duration> {
        let points = self.points()?;
        let (first, last) = (points.first()?, points.last()?);
        let above = points.iter().position(|point| point.rows >= rows).unwrap_or(points.len() - 1);
        let (low, high) = if above == 0 {
            (first, points.get(1).unwrap_or(last))
        } else {
            (&points[above - 1], &points[above])
        };
        let span = high.rows as f64 - low.rows as f64;
        let slope = if span > 0.0 { ((high.p50_us - low.p50_us) / span).max(0.0) } else { 0.0 };
        let us = low.p50_us + slope * (rows as f64 - low.rows as f64);
        Some(Duration::from_secs_f64(us.max(0.0) / 1e6))
    }

    pub fn fill(&self, points: Vec<LatencyPoint>) {
        // A table is filled once, by its own load.
        let _ = self.surveyed.set(points);
    }
}

/// The thread's CPU time.
///
/// A run is one thread's work, so its CPU time is how long it occupies a lane. Wall time would include other
/// load while a server starts, and a table filled then would keep batches small for good (seen: 8 rows
/// instead of 64). A system call of a third of a microsecond.
pub fn thread_cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> LatencyTable {
        let table = LatencyTable::default();
        let point = |rows, p50_us| LatencyPoint { rows, p50_us, p99_us: p50_us };
        table.fill(vec![point(1, 10.0), point(2, 12.0), point(8, 24.0)]);
        table
    }

    #[test]
    fn estimates_lie_on_the_lines_between_the_measured_sizes_and_go_on_beyond() {
        let us = |rows| table().estimate(rows).map(|run| run.as_secs_f64() * 1e6);
        for (rows, wanted) in [(1, 10.0), (2, 12.0), (5, 18.0), (8, 24.0), (16, 40.0)] {
            assert!((us(rows).unwrap() - wanted).abs() < 0.01, "{rows}: {:?}", us(rows));
        }
    }

    #[test]
    fn an_empty_table_estimates_nothing_and_a_survey_takes_the_place_of_rough_points() {
        assert_eq!(LatencyTable::default().estimate(1), None);
        let point = |p50_us| vec![LatencyPoint { rows: 1, p50_us, p99_us: p50_us }];
        let table = LatencyTable::of(point(50.0));
        assert_eq!(table.estimate(1), Some(Duration::from_micros(50)));
        table.fill(point(20.0));
        assert_eq!(table.estimate(1), Some(Duration::from_micros(20)));
    }
}
