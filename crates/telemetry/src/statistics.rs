//! Sums for the protocol's statistics: exact nanoseconds and batch sizes instead of histograms.
//!
//! Written by lanes like everything here, readable at any time.

use crate::{Counter, ModelMeter};
use flyball_core::{ModelStatistics, Nanos, Outcome, Protocol, RunRecord, Stage, Timed, WalkRecord, nanos};
use std::sync::OnceLock;

/// Larger runs are counted, but not by size: only a single request with that many rows has them.
const ROWS_MAX: usize = 1024;
/// The reported stages, in the order of `ModelStatistics`.
const REPORTED: [Stage; 4] = [Stage::Queue, Stage::Tensor, Stage::Infer, Stage::Respond];

#[derive(Debug, Default)]
struct TimedCounter {
    count: Counter,
    ns: Counter,
}

impl TimedCounter {
    fn add(&self, ns: u64) {
        self.count.add(1);
        self.ns.add(ns);
    }
}

/// One lane's sums of one model.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    answered_rows: Counter,
    outcome_ns: [Counter; Outcome::ALL.len()],
    stage_ns: [Counter; REPORTED.len()],
    last_ended: Counter,
    runs: Counter,
    /// By rows, the first for one. Allocated by the first run: a thousand unused models have none.
    runs_by_rows: OnceLock<Box<[TimedCounter]>>,
}

impl Sums {
    pub(crate) fn ended<M>(&self, record: &WalkRecord<'_, M>) {
        self.last_ended.set(record.ended.0);
        self.outcome_ns[record.outcome as usize].add(nanos(record.total));
        if record.outcome != Outcome::Answered {
            return;
        }
        self.answered_rows.add(record.rows as u64);
        for (sum, stage) in self.stage_ns.iter().zip(REPORTED) {
            sum.add(record.stages[stage.index()].map_or(0, nanos));
        }
    }

    pub(crate) fn ran(&self, run: &RunRecord) {
        if !run.succeeded {
            return;
        }
        self.runs.add(1);
        let by_rows =
            self.runs_by_rows.get_or_init(|| (0..ROWS_MAX).map(|_| TimedCounter::default()).collect());
        if let Some(runs) = run.rows.checked_sub(1).and_then(|place| by_rows.get(place)) {
            runs.add(nanos(run.took));
        }
    }
}

impl ModelMeter {
    /// The model's totals. `epoch_ms` converts monotonic to wall time.
    pub fn statistics(&self, epoch_ms: impl Fn(Nanos) -> u64) -> ModelStatistics {
        let sum = |pick: &dyn Fn(&Sums) -> &Counter| {
            self.lanes.iter().map(|lane| pick(&lane.sums).get()).fold(0, u64::wrapping_add)
        };
        let ended = |outcome: Outcome| {
            let counts = Protocol::ALL.map(|protocol| {
                self.lanes.iter().map(|lane| lane.tally.requests(protocol, outcome)).sum::<u64>()
            });
            Timed { count: counts.iter().sum(), ns: sum(&|sums| &sums.outcome_ns[outcome as usize]) }
        };
        let answered = ended(Outcome::Answered);
        let others = [Outcome::Refused, Outcome::Failed, Outcome::Abandoned].map(ended);
        let [queue, tensor, infer, respond] = std::array::from_fn(|place| Timed {
            count: answered.count,
            ns: sum(&|sums| &sums.stage_ns[place]),
        });
        let last = self.lanes.iter().map(|lane| lane.sums.last_ended.get()).max().unwrap_or(0);
        ModelStatistics {
            name: self.name.clone(),
            version: self.version.clone(),
            last_inference_ms: if last == 0 { 0 } else { epoch_ms(Nanos(last)) },
            rows: sum(&|sums| &sums.answered_rows),
            runs: sum(&|sums| &sums.runs),
            answered,
            unanswered: Timed {
                count: others.iter().map(|timed| timed.count).sum(),
                ns: others.iter().map(|timed| timed.ns).fold(0, u64::wrapping_add),
            },
            queue,
            tensor,
            infer,
            respond,
            runs_by_rows: self.runs_by_rows(),
        }
    }

    fn runs_by_rows(&self) -> Vec<(u64, Timed)> {
        let tables: Vec<_> = self.lanes.iter().filter_map(|lane| lane.sums.runs_by_rows.get()).collect();
        let sizes = (0..ROWS_MAX).map(|place| {
            let runs = tables.iter().map(|table| &table[place]);
            let timed = runs.fold(Timed::default(), |sum, runs| Timed {
                count: sum.count + runs.count.get(),
                ns: sum.ns.wrapping_add(runs.ns.get()),
            });
            (place as u64 + 1, timed)
        });
        if tables.is_empty() { Vec::new() } else { sizes.filter(|(_, timed)| timed.count > 0).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Telemetry;
    use flyball_core::{CallerIndex, FaultKind, Sink};
    use std::time::Duration;

    fn walk(model: &ModelMeter, outcome: Outcome, ended: u64) -> WalkRecord<'_, ModelMeter> {
        let fault = (outcome != Outcome::Answered).then_some((FaultKind::RunFailed, Stage::Infer));
        let stages = std::array::from_fn(|place| Some(Duration::from_nanos(10 + place as u64)));
        let total = Duration::from_nanos(1000);
        let (protocol, model) = (Protocol::Http, Some(model));
        let (caller, ended) = (CallerIndex::ANONYMOUS, Nanos(ended));
        WalkRecord { model, protocol, caller, outcome, fault, rows: 3, ended, total, stages }
    }

    fn run(rows: usize, succeeded: bool) -> RunRecord {
        RunRecord { rows, rows_max: 8, took: Duration::from_nanos(70), succeeded }
    }

    #[test]
    fn sums_of_all_lanes_are_told_and_stages_are_those_of_answered_requests() {
        let telemetry = Telemetry::new(2);
        let meter = telemetry.meter("fraud", "7");
        let sinks = [telemetry.sink(0), telemetry.sink(1)];
        sinks[0].record(&walk(&meter, Outcome::Answered, 5_000_000));
        sinks[1].record(&walk(&meter, Outcome::Answered, 9_000_000));
        sinks[1].record(&walk(&meter, Outcome::Failed, 7_000_000));
        sinks[0].record(&walk(&meter, Outcome::Refused, 6_000_000));
        sinks[0].batch(&meter, &run(6, true));
        sinks[1].batch(&meter, &run(6, true));
        sinks[1].batch(&meter, &run(1, true));
        sinks[1].batch(&meter, &run(1, false));
        let told = meter.statistics(|at| 1000 + at.0 / 1_000_000);
        let timed = |count, ns| Timed { count, ns };
        assert_eq!((told.name.as_str(), told.version.as_str()), ("fraud", "7"));
        assert_eq!((told.last_inference_ms, told.rows, told.runs), (1007, 6, 3));
        assert_eq!((told.answered, told.unanswered), (timed(2, 2000), timed(2, 2000)));
        assert_eq!((told.tensor, told.queue), (timed(2, 28), timed(2, 30)));
        assert_eq!((told.infer, told.respond), (timed(2, 32), timed(2, 38)));
        assert_eq!(told.runs_by_rows, [(1, timed(1, 70)), (6, timed(2, 140))]);
    }

    #[test]
    fn a_model_that_nobody_called_has_no_table_of_sizes_and_no_last_time() {
        let telemetry = Telemetry::new(1);
        let meter = telemetry.meter("idle", "1");
        assert!(meter.lanes[0].sums.runs_by_rows.get().is_none());
        let told = meter.statistics(|_| 1);
        assert_eq!(told, ModelStatistics { name: "idle".into(), version: "1".into(), ..Default::default() });
    }

    #[test]
    fn a_run_of_more_rows_than_the_table_has_is_still_a_run() {
        let telemetry = Telemetry::new(1);
        let meter = telemetry.meter("wide", "1");
        let sink = telemetry.sink(0);
        sink.batch(&meter, &run(ROWS_MAX, true));
        sink.batch(&meter, &run(ROWS_MAX + 1, true));
        let told = meter.statistics(|_| 1);
        assert_eq!(told.runs, 2);
        assert_eq!(told.runs_by_rows, [(ROWS_MAX as u64, Timed { count: 1, ns: 70 })]);
    }
}
