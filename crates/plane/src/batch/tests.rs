//! The batcher against runners made for the test: what is batched must come back as if it had run alone.

use crate::admission::Gate;
use crate::loaded::Run;
use crate::queue::Job;
use crate::stages::admit::admit;
use crate::walk::Walk;
use crate::{Lane, Model, Plane, PlaneLimits, batch};
use bytes::Bytes;
use flyball_core::{
    Clock, DataType, Fault, FaultKind, Protocol, RequestLimits, Sink, Tensor, TensorData, TensorSpec,
    WalkRecord,
};
use flyball_engine::{Batching, LatencyTable, RunError, Signature};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// Remembers the rows of each run.
#[derive(Default)]
struct Runs(RefCell<Vec<usize>>);

impl Sink for Runs {
    type Model = ();
    fn received(&self) {}
    fn record(&self, _record: &WalkRecord<'_, ()>) {}
    fn batch(&self, _model: &(), rows: usize, _took: Duration) {
        self.0.borrow_mut().push(rows);
    }
}

/// Adds one to every byte; fails on 250, panics on 251.
#[derive(Default)]
struct AddOne(Vec<u8>);

impl Run for AddOne {
    fn join(&mut self, requests: &mut dyn Iterator<Item = &[Tensor]>) {
        self.0.clear();
        for inputs in requests {
            if let TensorData::Fixed(bytes) = &inputs[0].data {
                self.0.extend_from_slice(bytes);
            }
        }
    }

    fn run(&mut self) -> Result<Vec<Tensor>, RunError> {
        assert!(!self.0.contains(&251), "the test's own panic");
        if self.0.contains(&250) {
            return Err(RunError("250 is out of range".into()));
        }
        Ok(vec![column(&self.0.iter().map(|byte| byte + 1).collect::<Vec<_>>())])
    }
}

fn column(rows: &[u8]) -> Tensor {
    let data = TensorData::Fixed(Bytes::copy_from_slice(rows));
    Tensor { name: "x".into(), datatype: DataType::Uint8, shape: [rows.len() as i64].as_slice().into(), data }
}

fn model(rows_max: usize) -> Arc<Model<()>> {
    let spec = TensorSpec { name: "x".into(), datatype: DataType::Uint8, shape: vec![-1] };
    Arc::new(Model {
        name: "m".into(),
        version: "1".into(),
        signature: Arc::new(Signature { inputs: vec![spec.clone()], outputs: vec![spec] }),
        batching: Batching { rows_max, reason: None },
        latency: LatencyTable::default(),
        meter: Arc::new(()),
        gate: Gate::new(1000),
        runners: vec![(0, Mutex::new(Box::new(AddOne::default())))],
        rows_inline: OnceLock::new(),
    })
}

fn lane() -> Rc<Lane<Runs>> {
    let limits = PlaneLimits { request: RequestLimits::for_body(1 << 20), in_flight_max: 1000 };
    let (plane, _inboxes) = Plane::new(1, limits, Clock::manual());
    Lane::new(plane, 0, Runs::default())
}

/// Runs all requests at once on a lane, and gives back each one's answer in order.
fn answers(lane: &Rc<Lane<Runs>>, requests: &[(Arc<Model<()>>, Vec<u8>)]) -> Vec<Result<Vec<u8>, Fault>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let batches = local.spawn_local({
        let lane = Rc::clone(lane);
        async move { batch::walk(&lane).await }
    });
    local.block_on(&runtime, async {
        let one = |(model, rows): (Arc<Model<()>>, Vec<u8>)| {
            let lane = Rc::clone(lane);
            tokio::task::spawn_local(async move {
                let mut walk = Walk::begin(&lane, Protocol::Http);
                let permit = admit(&lane.plane, &model, None)?;
                let outputs = batch::run(&lane, &model, vec![column(&rows)], permit, &mut walk).await?;
                match &outputs[0].data {
                    TensorData::Fixed(bytes) => Ok(bytes.to_vec()),
                    TensorData::Strings(_) => unreachable!(),
                }
            })
        };
        let tasks: Vec<_> = requests.iter().cloned().map(one).collect();
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap());
        }
        batches.abort();
        answers
    })
}

proptest! {
    #[test]
    fn every_request_gets_the_answer_of_its_own_rows_whatever_it_is_batched_with(
        requests in prop::collection::vec((0..3_usize, prop::collection::vec(0..200_u8, 1..5)), 1..40)
    ) {
        let models = [model(1), model(4), model(64)];
        let lane = lane();
        let requests: Vec<_> = requests.into_iter().map(|(which, rows)| (Arc::clone(&models[which]), rows)).collect();
        for ((_, rows), answer) in requests.iter().zip(answers(&lane, &requests)) {
            let wanted: Vec<u8> = rows.iter().map(|row| row + 1).collect();
            prop_assert_eq!(answer.unwrap(), wanted);
        }
        let runs = lane.sink.0.borrow();
        prop_assert_eq!(runs.iter().sum::<usize>(), requests.iter().map(|(_, rows)| rows.len()).sum::<usize>());
        prop_assert_eq!(lane.plane.load_ns(0), 0);
    }
}

#[test]
fn requests_that_are_ready_together_share_one_run() {
    let (lane, model) = (lane(), model(64));
    let requests: Vec<_> = (0..16).map(|row| (Arc::clone(&model), vec![row])).collect();
    answers(&lane, &requests);
    assert_eq!(*lane.sink.0.borrow(), [16]);
}

#[test]
fn a_batch_never_exceeds_the_model_s_limit() {
    let (lane, model) = (lane(), model(4));
    let requests: Vec<_> = (0..10).map(|row| (Arc::clone(&model), vec![row])).collect();
    answers(&lane, &requests);
    assert_eq!(*lane.sink.0.borrow(), [4, 4, 2]);
}

#[test]
fn a_bad_row_fails_alone_and_its_neighbours_are_answered() {
    let (lane, model) = (lane(), model(64));
    let requests: Vec<_> = [1, 250, 3].map(|row| (Arc::clone(&model), vec![row])).into();
    let answers = answers(&lane, &requests);
    assert_eq!((answers[0].clone().unwrap(), answers[2].clone().unwrap()), (vec![2], vec![4]));
    assert_eq!(answers[1].as_ref().unwrap_err().kind, FaultKind::RunFailed);
}

#[test]
fn a_panic_fails_its_batch_and_the_lane_goes_on() {
    let (lane, model) = (lane(), model(64));
    let first = answers(&lane, &[(Arc::clone(&model), vec![251])]);
    assert_eq!(first[0].as_ref().unwrap_err().kind, FaultKind::Panicked);
    let second = answers(&lane, &[(model, vec![7])]);
    assert_eq!(second[0], Ok(vec![8]));
}

#[test]
fn jobs_past_their_deadline_and_jobs_nobody_waits_for_cost_no_run() {
    let (lane, model) = (lane(), model(64));
    let job = |deadline| {
        let permit = admit(&lane.plane, &model, None).unwrap();
        let (reply, answer) = oneshot::channel();
        let inputs = vec![column(&[1])];
        (
            Job {
                model: Arc::clone(&model),
                inputs,
                rows: 1,
                deadline,
                cost_ns: 0,
                moved: false,
                _permit: permit,
                reply,
            },
            answer,
        )
    };
    let (late, mut answer) = job(Some(lane.now().after(Duration::from_millis(1))));
    let (unwanted, gone) = job(None);
    drop(gone);
    lane.plane.clock.advance(Duration::from_millis(2));
    batch::run_batch(&lane, &mut vec![late, unwanted]);
    assert_eq!(answer.try_recv().unwrap().unwrap_err().kind, FaultKind::DeadlinePassed);
    assert!(lane.sink.0.borrow().is_empty());
}

#[test]
fn a_full_server_refuses_at_the_door() {
    let (lane, model) = (lane(), model(64));
    let held: Vec<_> = (0..1000).map(|_| admit(&lane.plane, &model, None).unwrap()).collect();
    let fault = admit(&lane.plane, &model, None).unwrap_err();
    assert_eq!(fault.kind, FaultKind::InFlightFull);
    drop(held);
    assert!(admit(&lane.plane, &model, None).is_ok());
}
