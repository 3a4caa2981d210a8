//! How long a run takes by number of rows, measured on this machine in CPU time. Filled in the background after a model is
//! ready; until then estimates are `None` and nobody may rely on them.

use serde::Serialize;
use std::sync::OnceLock;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyPoint {
    pub rows: usize,
    pub p50_us: f64,
    pub p99_us: f64,
}

#[derive(Debug, Default)]
pub struct LatencyTable(OnceLock<Vec<LatencyPoint>>);

impl LatencyTable {
    pub fn points(&self) -> Option<&[LatencyPoint]> {
        self.0.get().map(Vec::as_slice)
    }

    /// The median run of `rows` rows: between measured sizes by straight lines, beyond the last by its slope.
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

    /// The most rows, up to `rows_max`, whose estimated run stays within `limit`; at least 1.
    pub fn rows_within(&self, limit: Duration, rows_max: usize) -> usize {
        if self.points().is_none() {
            return rows_max;
        }
        let fits = |rows: usize| self.estimate(rows).is_none_or(|run| run <= limit);
        (1..=rows_max).rev().find(|&rows| fits(rows)).unwrap_or(1)
    }

    pub(crate) fn fill(&self, points: Vec<LatencyPoint>) {
        // A table is filled once, by the load that made it.
        let _ = self.0.set(points);
    }
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
    fn an_empty_table_bounds_nothing_and_estimates_nothing() {
        let table = LatencyTable::default();
        assert_eq!(table.estimate(1), None);
        assert_eq!(table.rows_within(Duration::ZERO, 64), 64);
    }

    #[test]
    fn the_most_rows_within_a_limit_is_never_less_than_one() {
        assert_eq!(table().rows_within(Duration::from_micros(18), 64), 5);
        assert_eq!(table().rows_within(Duration::from_micros(1), 64), 1);
    }
}
