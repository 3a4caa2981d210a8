//! The batcher with fake runners: batched requests get the same results as alone.

use crate::job::Job;
use crate::schedule::Taken;
use crate::stages::admit::{Demand, admit};
use crate::stages::queue::{RunTicket, queue};
use crate::testing::{Made, Runs, column, lanes};
use crate::{Lane, LaneInbox, Model, batch};
use flyball_core::{Fault, FaultKind, Nanos, Priority, Tensor, TensorData};
use flyball_engine::{Run, RunError, StopRun};
use proptest::prelude::*;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

fn model(rows_max: usize) -> Arc<Model<()>> {
    Made { rows_max, ..Made::usual() }.model()
}

fn lane() -> Rc<Lane<Runs>> {
    lanes(1).swap_remove(0).0
}

/// An inbox without a sender.
fn no_inbox() -> LaneInbox<()> {
    LaneInbox(tokio::sync::mpsc::channel(1).1)
}

fn ask(deadline: Option<Nanos>) -> Demand {
    Demand { rows: 1, priority: Priority::Normal, deadline }
}

/// Runs all requests at once on a lane, and returns their answers in order.
fn answers(lane: &Rc<Lane<Runs>>, requests: &[(Arc<Model<()>>, Vec<u8>)]) -> Vec<Result<Vec<u8>, Fault>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let batches = local.spawn_local({
        let lane = Rc::clone(lane);
        async move { batch::walk(&lane, &mut no_inbox()).await }
    });
    local.block_on(&runtime, async {
        let one = |(model, rows): (Arc<Model<()>>, Vec<u8>)| {
            let lane = Rc::clone(lane);
            tokio::task::spawn_local(async move {
                let ticket = RunTicket::new(admit(&lane, &model, ask(None))?, Priority::Normal, None);
                let (ran, _permit) = queue(&lane, &model, vec![column(&rows)], ticket).await?;
                match &ran.outputs[0].data {
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
    for (bad, kind) in [(250, FaultKind::RunFailed), (249, FaultKind::RunMemoryExceeded)] {
        let requests: Vec<_> = [1, bad, 3].map(|row| (Arc::clone(&model), vec![row])).into();
        let answers = answers(&lane, &requests);
        assert_eq!((answers[0].clone().unwrap(), answers[2].clone().unwrap()), (vec![2], vec![4]));
        assert_eq!(answers[1].as_ref().unwrap_err().kind, kind);
    }
}

#[test]
fn nothing_is_admitted_while_memory_is_full() {
    let (lane, model) = (lane(), model(64));
    lane.plane.press(11, 10);
    let refused = answers(&lane, &[(Arc::clone(&model), vec![1])]);
    assert_eq!(refused[0].as_ref().unwrap_err().kind, FaultKind::MemoryFull);
    lane.plane.press(10, 10);
    assert_eq!(answers(&lane, &[(model, vec![1])])[0], Ok(vec![2]));
}

#[test]
fn an_answer_over_the_limit_is_not_written() {
    let lane = lane();
    let written = |bytes_max: usize| {
        lane.write(bytes_max, |out| {
            out.extend_from_slice(b"answer");
            Ok(out.split())
        })
    };
    let most = lane.plane.limits.answer_bytes_max;
    assert_eq!(written(most).unwrap(), "answer");
    let fault = written(most + 1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::AnswerTooLarge);
    assert!(fault.text.contains(&most.to_string()) && fault.text.contains("answer_bytes_max"), "{fault}");
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
fn what_waits_when_the_breaker_opens_is_refused_without_a_run_and_the_trial_runs() {
    let (lane, model) = (lane(), model(1));
    let requests: Vec<_> = [[251; 8].as_slice(), &[1, 2, 3]].concat();
    let requests: Vec<_> = requests.into_iter().map(|row| (Arc::clone(&model), vec![row])).collect();
    let faults: Vec<_> = answers(&lane, &requests).into_iter().map(Result::unwrap_err).collect();
    let pause = Duration::from_secs(1);
    for (place, fault) in faults.iter().enumerate() {
        let wanted =
            if place < 8 { (FaultKind::Panicked, None) } else { (FaultKind::BreakerOpen, Some(pause)) };
        assert_eq!((fault.kind, fault.retry_after), wanted, "{place}");
    }
    assert_eq!(lane.sink.0.borrow().len(), 8);
    assert_eq!(lane.plane.load_ns(0), 0);
    lane.plane.clock.advance(pause);
    assert_eq!(answers(&lane, &[(model, vec![7])]), [Ok(vec![8])]);
}

#[test]
fn jobs_past_their_deadline_and_jobs_nobody_waits_for_cost_no_run() {
    let (lane, runs) = (lane(), Arc::new(AtomicUsize::new(0)));
    let model = Made::usual().version("1", |_| Box::new(Counted(Arc::clone(&runs))));
    let queue = |deadline: Option<Nanos>| {
        let permit = admit(&lane, &model, ask(None)).unwrap();
        let (promise, waiting) = lane.slots.pair();
        let ticket = RunTicket::new(permit, Priority::Normal, deadline);
        let job = Job::new(&model, vec![column(&[1])], ticket, promise, lane.now());
        assert!(lane.accept(job).unwrap());
        waiting
    };
    let late = queue(Some(lane.now().after(Duration::from_millis(1))));
    drop(queue(None));
    lane.plane.clock.advance(Duration::from_millis(2));
    let mut taken = Taken::default();
    batch::take(&lane, &mut taken);
    assert!(taken.batch.is_empty());
    let fault = futures_now(late).unwrap_err();
    assert_eq!(fault.kind, FaultKind::DeadlinePassed);
    assert_eq!((lane.plane.load_ns(0), runs.load(Ordering::Relaxed)), (0, 0));
}

/// Counts its runs.
struct Counted(Arc<AtomicUsize>);

impl Run for Counted {
    fn clear(&mut self) {}

    fn add(&mut self, _inputs: &[Tensor]) {}

    fn run(&mut self, _outputs: &mut Vec<Tensor>) -> Result<(), RunError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn stopper(&self) -> StopRun {
        Arc::new(|| {})
    }
}

/// The output of a future that is ready.
fn futures_now<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

#[test]
fn a_full_model_refuses_at_the_door() {
    let (lane, model) = (lane(), model(64));
    let held: Vec<_> = (0..1000).map(|_| admit(&lane, &model, ask(None)).unwrap()).collect();
    let fault = admit(&lane, &model, ask(None)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::InFlightFull);
    drop(held);
    assert!(admit(&lane, &model, ask(None)).is_ok());
}

#[test]
fn a_deadline_shorter_than_a_run_is_refused_with_what_a_run_takes() {
    let (lane, model) = (lane(), Made { first: Duration::from_millis(5), ..Made::usual() }.model());
    let fault = admit(&lane, &model, ask(Some(lane.now().after(Duration::from_millis(4))))).unwrap_err();
    assert_eq!(fault.kind, FaultKind::DeadlineUnreachable);
    assert_eq!(
        fault.text,
        "Deadline Exceeded: it is in 4.0 ms, but a run of model 'm' takes 5.0 ms; allow more time"
    );
}

#[test]
fn a_model_that_is_slow_runs_on_a_compute_lane_and_one_that_is_fast_where_its_request_came_in() {
    let slow = Made { first: Duration::from_millis(5), ..Made::usual() }.model();
    for (model, here) in [(slow, false), (model(64), true)] {
        let mut lanes = lanes(1);
        let (compute, mut inbox) = lanes.pop().unwrap();
        let (lane, _) = lanes.pop().unwrap();
        let ticket = RunTicket::new(admit(&lane, &model, ask(None)).unwrap(), Priority::Normal, None);
        let mut run = Box::pin(queue(&lane, &model, vec![column(&[1])], ticket));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let pending = poll_fn(|context| Poll::Ready(run.as_mut().poll(context).is_pending()));
        assert!(runtime.block_on(pending));
        assert_eq!(lane.schedule.borrow().jobs(), usize::from(here));
        assert_eq!(inbox.0.try_recv().is_ok(), !here);
        assert_eq!(lane.plane.load_ns(compute.id) > 0, !here);
    }
}
