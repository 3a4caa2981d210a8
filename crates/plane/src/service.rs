//! A model's expected run time: the table measured at load, corrected by every run. It decides for each batch whether it may
//! run on a lane with sockets.

use flyball_core::nanos;
use flyball_engine::LatencyTable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Measured over expected, in thousandths, smoothed over this many runs.
const AS_EXPECTED: u32 = 1000;
const SMOOTHED_OVER: u64 = 16;
/// Maximum weight of a single run, as a multiple of the estimate: the thread may have lost its core.
const SAMPLE_MAX: u64 = 8;
const DRIFT_MAX: u64 = 10_000 * AS_EXPECTED as u64;

pub(crate) struct Service {
    pub(crate) table: LatencyTable,
    drift: AtomicU32,
    /// Learned from runs, if there is no table because the model does not run on sample input.
    row_ns: AtomicU64,
    pub(crate) conduct: Arc<Conduct>,
}

/// A model's observed behaviour, kept when it is loaded again.
#[derive(Debug, Default)]
pub struct Conduct {
    /// Its run time depends on input values, or it had to be stopped: it never runs on a lane with sockets.
    unpredictable: AtomicBool,
    /// One of its runs could not be stopped: it runs in a model host.
    moved: AtomicBool,
}

impl Conduct {
    pub fn new(unpredictable: bool) -> Conduct {
        Conduct { unpredictable: AtomicBool::new(unpredictable), moved: AtomicBool::new(false) }
    }

    pub fn moved(&self) -> bool {
        self.moved.load(Relaxed)
    }

    /// Moves it to a model host permanently.
    pub(crate) fn move_away(&self) {
        self.unpredictable.store(true, Relaxed);
        self.moved.store(true, Relaxed);
    }
}

impl Service {
    pub(crate) fn new(table: LatencyTable, conduct: Arc<Conduct>) -> Service {
        Service { table, drift: AtomicU32::new(AS_EXPECTED), row_ns: AtomicU64::new(0), conduct }
    }

    pub(crate) fn run_time(&self, rows: usize) -> Duration {
        match self.table.estimate(rows) {
            Some(expected) => expected.saturating_mul(self.drift.load(Relaxed)) / AS_EXPECTED,
            None => Duration::from_nanos(self.row_ns.load(Relaxed).saturating_mul(rows as u64)),
        }
    }

    /// The maximum rows, up to `rows_max`, whose run is expected to stay within `time`; zero if one exceeds it.
    pub(crate) fn rows_within(&self, time: Duration, rows_max: usize) -> usize {
        if self.run_time(rows_max) <= time {
            return rows_max;
        }
        let (mut within, mut beyond) = (0, rows_max);
        while beyond - within > 1 {
            let middle = within.midpoint(beyond);
            if self.run_time(middle) <= time { within = middle } else { beyond = middle }
        }
        within
    }

    /// Whether a run of `rows` rows may run on a lane with sockets. An unmeasured model may not.
    pub(crate) fn inline(&self, rows: usize, inline_run_max: Duration) -> bool {
        let known = self.table.points().is_some() || self.row_ns.load(Relaxed) > 0;
        known && !self.conduct.unpredictable.load(Relaxed) && self.run_time(rows) <= inline_run_max
    }

    pub(crate) fn never_inline(&self) {
        self.conduct.unpredictable.store(true, Relaxed);
    }

    /// Corrects the estimate with a run of `rows` rows.
    pub(crate) fn observe(&self, rows: usize, took: Duration) {
        let took_ns = nanos(took);
        let Some(expected) = self.table.estimate(rows).filter(|expected| !expected.is_zero()) else {
            let row_ns = took_ns / (rows as u64).max(1);
            let before = self.row_ns.load(Relaxed);
            let smoothed =
                if before == 0 { row_ns } else { (before * (SMOOTHED_OVER - 1) + row_ns) / SMOOTHED_OVER };
            self.row_ns.store(smoothed.max(1), Relaxed);
            return;
        };
        let expected_ns = nanos(expected);
        let before = u64::from(self.drift.load(Relaxed));
        let sample = took_ns.saturating_mul(u64::from(AS_EXPECTED)) / expected_ns.max(1);
        let sample = sample.clamp(1, before.max(1) * SAMPLE_MAX);
        let smoothed = (before * (SMOOTHED_OVER - 1) + sample).div_ceil(SMOOTHED_OVER).min(DRIFT_MAX);
        self.drift.store(u32::try_from(smoothed).unwrap_or(AS_EXPECTED), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_engine::LatencyPoint;

    const MS: Duration = Duration::from_millis(1);

    fn service() -> Service {
        let point = |rows, p50_us| LatencyPoint { rows, p50_us, p99_us: p50_us };
        Service::new(LatencyTable::of(vec![point(1, 100.0), point(11, 1100.0)]), Arc::default())
    }

    #[test]
    fn a_batch_is_inline_when_its_own_run_is_short_enough() {
        let service = service();
        assert!(service.inline(10, MS));
        assert!(!service.inline(11, MS));
        assert_eq!(service.rows_within(MS, 64), 10);
        assert_eq!(service.rows_within(MS, 4), 4);
        assert_eq!(service.rows_within(MS / 20, 64), 0);
    }

    #[test]
    fn a_model_that_got_slower_than_its_table_leaves_the_socket_lanes_and_comes_back_when_it_is_fast_again() {
        let service = service();
        for _ in 0..100 {
            service.observe(1, 20 * MS);
        }
        assert!(!service.inline(1, MS), "{:?}", service.run_time(1));
        for _ in 0..200 {
            service.observe(1, MS / 10);
        }
        assert!(service.inline(8, MS), "{:?}", service.run_time(8));
    }

    #[test]
    fn one_run_that_the_host_held_up_changes_little() {
        let service = service();
        service.observe(1, Duration::from_secs(1));
        assert!(service.run_time(1) < MS / 6, "{:?}", service.run_time(1));
    }

    #[test]
    fn a_model_without_a_table_is_kept_off_the_sockets_until_its_runs_were_measured() {
        let service = Service::new(LatencyTable::default(), Arc::default());
        assert!(!service.inline(1, MS));
        service.observe(2, MS / 5);
        assert!(service.inline(1, MS));
        service.never_inline();
        assert!(!service.inline(1, MS));
    }
}
