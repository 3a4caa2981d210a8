//! Meters: one `LaneSink` for each lane, one `ModelMeter` for each model version.
//!
//! The totals must always add up: received == answered + refused + failed + abandoned + in flight.

use crate::callers::{CallerNames, CallerTally};
use crate::decisions::{DecisionLane, OutcomeNames};
use crate::statistics::Sums;
use crate::{Counter, Histogram};
use flyball_core::{
    DecisionRecord, FaultKind, Meters, Outcome, Protocol, RunRecord, Shadow, Shadowed, Sink, Stage,
    WalkRecord, nanos,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Requests by protocol and outcome, faults by kind and stage.
#[derive(Debug)]
pub(crate) struct Tally {
    requests: [[Counter; Outcome::ALL.len()]; Protocol::ALL.len()],
    faults: [[Counter; Stage::COUNT]; FaultKind::ALL.len()],
}

impl Default for Tally {
    /// By hand: arrays of more than 32 items have no `Default`.
    fn default() -> Tally {
        Tally { requests: Default::default(), faults: std::array::from_fn(|_| Default::default()) }
    }
}

impl Tally {
    fn record<M>(&self, record: &WalkRecord<'_, M>) {
        self.requests[record.protocol.index()][record.outcome as usize].add(1);
        if let Some((kind, stage)) = record.fault {
            self.faults[kind.index()][stage.index()].add(1);
        }
    }

    /// Adds another tally's counts. Only under the lock on the meters, which makes its holder the one writer.
    fn take_in(&self, other: &Tally) {
        for (own, theirs) in self.requests.iter().flatten().zip(other.requests.iter().flatten()) {
            own.add(theirs.get());
        }
        for (own, theirs) in self.faults.iter().flatten().zip(other.faults.iter().flatten()) {
            own.add(theirs.get());
        }
    }

    pub(crate) fn requests(&self, protocol: Protocol, outcome: Outcome) -> u64 {
        self.requests[protocol.index()][outcome as usize].get()
    }

    pub(crate) fn faults(&self, kind: FaultKind, stage: Stage) -> u64 {
        self.faults[kind.index()][stage.index()].get()
    }
}

/// Four times the deployments of a snapshot; few in tests, so that the limit is reached.
const METERS_MAX: usize = if cfg!(test) { 16 } else { 4096 };

/// Not a valid version of a model: those are numbers.
const DECISION_VERSION: &str = "decision";

/// Batch sizes by powers of two up to 1024 rows.
pub(crate) const ROW_BUCKETS: usize = 11;

/// One lane's measurements of one model.
#[derive(Debug, Default)]
pub(crate) struct ModelLane {
    pub(crate) tally: Tally,
    pub(crate) stages: [Histogram; Stage::COUNT],
    pub(crate) total: Histogram,
    pub(crate) batches: [Counter; ROW_BUCKETS + 1],
    pub(crate) rows: Counter,
    pub(crate) rows_max: Counter,
    pub(crate) sums: Sums,
    pub(crate) decision: DecisionLane,
}

/// The measurements of one model version or decision over all lanes. Outlives the model.
#[derive(Debug)]
pub struct ModelMeter {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) lanes: Arc<[ModelLane]>,
    /// For a decision; none for models.
    pub(crate) outcomes: Option<OutcomeNames>,
}

/// One lane's measurements that belong to no model.
#[derive(Debug, Default)]
pub(crate) struct LaneMeter {
    pub(crate) received: Counter,
    pub(crate) outcomes: [Counter; Outcome::ALL.len()],
    pub(crate) unrouted: Tally,
    pub(crate) callers: CallerTally,
    pub(crate) busy_ns: Counter,
}

/// All measurements of a server.
#[derive(Debug)]
pub struct Telemetry {
    pub(crate) lanes: Box<[LaneMeter]>,
    pub(crate) models: Mutex<Vec<Arc<ModelMeter>>>,
    /// The counts of removed models whose meters were dropped.
    pub(crate) removed: Box<[Tally]>,
    pub(crate) callers: Mutex<CallerNames>,
}

/// The sums that must add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub received: u64,
    pub answered: u64,
    pub refused: u64,
    pub failed: u64,
    pub abandoned: u64,
}

impl Telemetry {
    pub fn new(lanes: usize) -> Arc<Telemetry> {
        Arc::new(Telemetry {
            lanes: (0..lanes).map(|_| LaneMeter::default()).collect(),
            models: Mutex::new(Vec::new()),
            removed: (0..lanes).map(|_| Tally::default()).collect(),
            callers: Mutex::default(),
        })
    }

    /// The meter of a model version.
    ///
    /// A reloaded version continues its counts, and a removed one stays: counters must not go backwards, and
    /// their sum must stay what was received. Bounded, because the names come from snapshots: beyond the
    /// limit, the oldest unused meter is merged into the requests without a model.
    pub fn meter(&self, name: &str, version: &str) -> Arc<ModelMeter> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = models.iter().find(|model| model.name == name && model.version == version) {
            return Arc::clone(known);
        }
        self.make_room(&mut models);
        let lanes = self.lanes.iter().map(|_| ModelLane::default()).collect();
        let (name, version) = (name.to_owned(), version.to_owned());
        let meter = Arc::new(ModelMeter { name, version, lanes, outcomes: None });
        models.push(Arc::clone(&meter));
        meter
    }

    fn make_room(&self, models: &mut Vec<Arc<ModelMeter>>) {
        let held =
            |model: &Arc<ModelMeter>| Arc::strong_count(model) > 1 || Arc::strong_count(&model.lanes) > 1;
        if models.len() >= METERS_MAX
            && let Some(unused) = models.iter().position(|model| !held(model))
        {
            let gone = models.remove(unused);
            for (kept, lane) in self.removed.iter().zip(gone.lanes.iter()) {
                kept.take_in(&lane.tally);
            }
        }
    }

    /// The sink of a lane. Call it once for each lane, and keep it on that lane's thread.
    pub fn sink(self: &Arc<Telemetry>, lane: usize) -> LaneSink {
        LaneSink { telemetry: Arc::clone(self), lane }
    }

    pub fn totals(&self) -> Totals {
        // Outcomes first: a request that ends between the two reads may make `received` larger, never
        // smaller.
        let outcome =
            |outcome: Outcome| self.lanes.iter().map(|lane| lane.outcomes[outcome as usize].get()).sum();
        let (answered, refused) = (outcome(Outcome::Answered), outcome(Outcome::Refused));
        let (failed, abandoned) = (outcome(Outcome::Failed), outcome(Outcome::Abandoned));
        let received = self.lanes.iter().map(|lane| lane.received.get()).sum();
        Totals { received, answered, refused, failed, abandoned }
    }
}

impl Totals {
    pub fn in_flight(&self) -> u64 {
        self.received.saturating_sub(self.answered + self.refused + self.failed + self.abandoned)
    }
}

/// Where one lane writes. Not `Clone`: a second writer could lose counts.
#[derive(Debug)]
pub struct LaneSink {
    telemetry: Arc<Telemetry>,
    lane: usize,
}

impl Meters<ModelMeter> for Telemetry {
    fn model(&self, name: &str, version: &str) -> Arc<ModelMeter> {
        self.meter(name, version)
    }

    /// Walks are counted like a model's, under a reserved version; with other outcomes than before it is a new
    /// meter on the same counters.
    fn decision(&self, name: &str, outcomes: &[Arc<str>]) -> Arc<ModelMeter> {
        let known = self.meter(name, DECISION_VERSION);
        let names =
            OutcomeNames::after(known.outcomes.as_ref().unwrap_or(&OutcomeNames::default()), outcomes);
        if known.outcomes.as_ref() == Some(&names) {
            return known;
        }
        let (version, lanes) = (known.version.clone(), Arc::clone(&known.lanes));
        let meter = Arc::new(ModelMeter { name: name.to_owned(), version, lanes, outcomes: Some(names) });
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = models.iter().position(|model| Arc::ptr_eq(model, &known)) {
            models[place] = Arc::clone(&meter);
        }
        meter
    }
}

impl LaneSink {
    fn meter(&self) -> &LaneMeter {
        &self.telemetry.lanes[self.lane]
    }
}

impl Sink for LaneSink {
    type Model = ModelMeter;

    fn received(&self) {
        self.meter().received.add(1);
    }

    fn record(&self, record: &WalkRecord<'_, ModelMeter>) {
        self.meter().outcomes[record.outcome as usize].add(1);
        self.meter().callers.record(record.caller, record.outcome);
        let Some(model) = record.model else {
            self.meter().unrouted.record(record);
            return;
        };
        let model = &model.lanes[self.lane];
        model.tally.record(record);
        model.total.record(record.total);
        model.sums.ended(record);
        for (histogram, duration) in model.stages.iter().zip(record.stages) {
            if let Some(duration) = duration {
                histogram.record(duration);
            }
        }
    }

    fn batch(&self, model: &ModelMeter, run: &RunRecord) {
        self.meter().busy_ns.add(nanos(run.took));
        let model = &model.lanes[self.lane];
        model.sums.ran(run);
        let (rows, rows_max) = (run.rows, run.rows_max);
        let place = rows.max(1).next_power_of_two().trailing_zeros() as usize;
        model.batches[place.min(ROW_BUCKETS)].add(1);
        model.rows.add(rows as u64);
        // A request with more rows than a batch may have fills its run.
        model.rows_max.add(rows_max.max(rows) as u64);
    }

    fn decided(&self, decision: &ModelMeter, row: &DecisionRecord) {
        if let Some(names) = &decision.outcomes {
            decision.lanes[self.lane].decision.decided(names, row);
        }
    }

    fn repeated(&self, decision: &ModelMeter, rows: usize) {
        decision.lanes[self.lane].decision.repeated(rows);
    }

    fn shadowed(&self, decision: &ModelMeter, of: Shadow, row: Shadowed) {
        decision.lanes[self.lane].decision.shadowed(of, row);
    }
}

#[cfg(test)]
mod tests;
