//! Models, lanes and sinks for tests, also of other crates (feature `testing`).
//!
//! A runner adds one, latency tables are made up, and clocks are advanced by hand.

use crate::admission::Gate;
use crate::breaker::Breaker;
use crate::loaded::{Home, Terms};
use crate::schedule::ModelKey;
use crate::service::Service;
use crate::{Deployment, Lane, LaneInbox, Lanes, Model, Plane, PlaneLimits, PlaneServices, Provenance};
use bytes::Bytes;
use flyball_core::{
    Clock, DataType, DecisionRecord, Digest, Meters, RequestLimits, RunRecord, Shadow, Shadowed, Sink,
    Tensor, TensorData, TensorSpec, WalkRecord, WallClock,
};
use flyball_engine::{Batching, LatencyPoint, LatencyTable, MemoryBudget, Run, RunError, Signature, StopRun};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The wall time at which tests begin.
pub const WALL_MS: i64 = 1_763_200_000_000;

/// Measures nothing.
pub struct Unmeasured;

impl Meters<()> for Unmeasured {
    fn model(&self, _name: &str, _version: &str) -> Arc<()> {
        Arc::new(())
    }

    fn decision(&self, _name: &str, _outcomes: &[Arc<str>]) -> Arc<()> {
        Arc::new(())
    }
}

/// Keeps the rows of each run and the records of walks, decisions and shadows.
#[derive(Default)]
pub struct Runs(pub RefCell<Vec<usize>>, pub RefCell<Seen>);

#[derive(Default)]
pub struct Seen {
    pub walks: Vec<WalkRecord<'static, ()>>,
    /// The meter of each walk, by its address.
    pub metered: Vec<Option<*const ()>>,
    pub decided: Vec<DecisionRecord>,
    pub repeated: usize,
    pub shadowed: Vec<(Shadow, Shadowed)>,
}

impl Sink for Runs {
    type Model = ();
    fn received(&self) {}
    fn record(&self, record: &WalkRecord<'_, ()>) {
        self.1.borrow_mut().metered.push(record.model.map(std::ptr::from_ref));
        self.1.borrow_mut().walks.push(WalkRecord { model: None, ..record.clone() });
    }
    fn batch(&self, _model: &(), run: &RunRecord) {
        self.0.borrow_mut().push(run.rows);
    }
    fn decided(&self, _decision: &(), row: &DecisionRecord) {
        self.1.borrow_mut().decided.push(*row);
    }
    fn repeated(&self, _decision: &(), rows: usize) {
        self.1.borrow_mut().repeated += rows;
    }
    fn shadowed(&self, _decision: &(), of: Shadow, row: Shadowed) {
        self.1.borrow_mut().shadowed.push((of, row));
    }
}

/// Adds one to every byte; exceeds its memory on 249, fails on 250, panics on 251.
#[derive(Default)]
pub struct AddOne(Vec<u8>);

impl Run for AddOne {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, inputs: &[Tensor]) {
        if let TensorData::Fixed(bytes) = &inputs[0].data {
            self.0.extend_from_slice(bytes);
        }
    }

    fn run(&mut self, outputs: &mut Vec<Tensor>) -> Result<(), RunError> {
        assert!(!self.0.contains(&251), "the test's own panic");
        outputs.clear();
        if self.0.contains(&249) {
            return Err(RunError::MemoryExceeded { wanted: 3 << 20, bytes_max: 2 << 20 });
        }
        if self.0.contains(&250) {
            return Err(RunError::Failed("250 is out of range".into()));
        }
        outputs.push(column(&self.0.iter().map(|byte| byte + 1).collect::<Vec<_>>()));
        Ok(())
    }

    fn stopper(&self) -> StopRun {
        Arc::new(|| {})
    }
}

pub fn column(rows: &[u8]) -> Tensor {
    let data = TensorData::Fixed(Bytes::copy_from_slice(rows));
    let shape = [rows.len() as i64].as_slice().into();
    Tensor { name: "x".into(), datatype: DataType::Uint8, shape, data }
}

/// A made-up model. A run is expected to take `first`, and `row` for each further row.
#[derive(Clone, Copy)]
pub struct Made {
    pub rows_max: usize,
    pub in_flight_max: usize,
    pub first: Duration,
    pub row: Duration,
    pub homes: usize,
    pub terms: Terms,
}

impl Made {
    pub fn usual() -> Made {
        let terms = Terms {
            deadline: None,
            queue_wait_max: Duration::from_secs(1),
            run_max: Duration::from_secs(10),
            share: 100,
            batch_wait: None,
        };
        let (first, row) = (Duration::from_micros(2), Duration::from_nanos(200));
        Made { rows_max: 64, in_flight_max: 1000, first, row, homes: 1, terms }
    }

    /// An unsigned deployment of one version, in the first snapshot.
    pub fn deployment(self, name: &str, digest: Digest) -> Deployment<()> {
        Deployment {
            name: name.to_owned(),
            digest,
            route: "1".to_owned(),
            versions: vec![self.model()],
            trial: None,
            candidate: None,
            decision: None,
            provenance: Provenance::Unsigned,
            origin: None,
            generation: AtomicU64::new(1),
        }
    }

    pub fn model(self) -> Arc<Model<()>> {
        self.version("1", |_place| Box::new(AddOne::default()))
    }

    /// A model of this version, with one runner for each home.
    pub fn version(self, version: &str, runner: impl Fn(usize) -> Box<dyn Run>) -> Arc<Model<()>> {
        let spec = TensorSpec { name: "x".into(), datatype: DataType::Uint8, shape: vec![-1] };
        let point = |rows: usize| {
            let us = (self.first + self.row * (rows as u32 - 1)).as_secs_f64() * 1e6;
            LatencyPoint { rows, p50_us: us, p99_us: us }
        };
        let points = if self.rows_max > 1 { vec![point(1), point(self.rows_max)] } else { vec![point(1)] };
        Arc::new(Model {
            key: ModelKey::next(),
            name: "m".into(),
            version: version.into(),
            signature: Arc::new(Signature { inputs: vec![spec.clone()], outputs: vec![spec] }),
            batching: Batching { rows_max: self.rows_max, reason: None },
            labels: HashMap::new(),
            in_rows: true,
            defaults: Vec::new(),
            moves_texts: true,
            client_shapes: None,
            meter: Arc::new(()),
            service: Service::new(LatencyTable::of(points), Arc::default()),
            row_elements: None,
            terms: self.terms,
            gate: Gate::new(self.in_flight_max),
            breaker: Breaker::default(),
            homes: (0..self.homes).map(|place| Home::new(place, runner(place), &Arc::default())).collect(),
            hosted: None,
        })
    }
}

pub fn limits() -> PlaneLimits {
    PlaneLimits {
        request: RequestLimits::for_body(1 << 20),
        in_flight_max: 1000,
        inline_run_max: Duration::from_millis(1),
        answer_bytes_max: 64 << 20,
        memory: MemoryBudget::UNLIMITED,
    }
}

/// The lanes of a plane: `sockets` with sockets and as many without. The clock is advanced by hand.
pub fn lanes(sockets: usize) -> Vec<(Rc<Lane<Runs>>, LaneInbox<()>)> {
    lanes_by(sockets, |_services| {})
}

/// The same with changed services.
pub fn lanes_by(
    sockets: usize,
    edit: impl FnOnce(&mut PlaneServices),
) -> Vec<(Rc<Lane<Runs>>, LaneInbox<()>)> {
    let clock = Clock::manual();
    let mut services = PlaneServices::in_memory(clock.clone(), WallClock::manual(WALL_MS));
    edit(&mut services);
    let (mut plane, mut inboxes) = Plane::new(Lanes { sockets, compute: sockets }, limits(), clock, services);
    Arc::get_mut(&mut plane).expect("not shared yet").thread_time = || Duration::ZERO;
    // The spare lane's: nothing is sent there.
    inboxes.pop();
    let lane = |(id, inbox)| (Lane::new(Arc::clone(&plane), id, Runs::default()), inbox);
    inboxes.into_iter().enumerate().map(lane).collect()
}
