//! The second walk, of a batch: collect → share → take → run → split → reply.
//!
//! Batching by readiness: the lane first lets every connection whose bytes have arrived parse its request, then runs the
//! model once for all of them. There is no window and no timer unless a deployment sets one: a single request runs at once,
//! and under load batches grow automatically. This relies on the order in which the runtime polls, which tokio does not
//! guarantee; a test checks it.

mod parts;

use crate::job::Job;
use crate::loaded::{Home, Model};
use crate::pressure::memory_full;
use crate::schedule::{Queued, Taken};
use crate::{Lane, LaneInbox, share};
use flyball_core::{Fault, FaultKind, Nanos, RunRecord, Sink, Stage, Tensor};
use flyball_engine::RunError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

/// The result of a run for one job.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outputs: Vec<Tensor>,
    pub(crate) began: Nanos,
    pub(crate) ended: Nanos,
    pub(crate) batch: Place,
}

/// A job's position in its batch: some models answer differently with other neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// All rows of the run.
    pub(crate) rows: u32,
    /// The index of the job's first row.
    pub(crate) first: u32,
}

/// Maximum run time on a lane with sockets, where a run is expected to take a millisecond.
const INLINE_STUCK: Duration = Duration::from_secs(1);
/// The number of rows of inputs; at least one.
pub(crate) fn rows(inputs: &[Tensor]) -> usize {
    inputs.first().map_or(1, Tensor::rows).max(1)
}

/// Runs a lane's batches, one after the other, for as long as it is polled.
pub(crate) async fn walk<S: Sink>(lane: &Lane<S>, inbox: &mut LaneInbox<S::Model>) {
    let mut taken = Taken::default();
    loop {
        work(lane, inbox).await;
        collect(lane, inbox).await;
        let began = lane.now();
        while {
            take(lane, &mut taken);
            run_batch(lane, &mut taken.batch, taken.rows_max);
            another_fits(lane, began)
        } {}
        tokio::task::yield_now().await;
    }
}

/// Whether another request of a model without batching may run before the earlier answers are written.
///
/// All of them together must stay within the time that a run may block sockets. Writing wakes clients and touches cold
/// memory, which costs much less for several answers at once (16 connections, 0.2 ms a run: 10 % more requests a second).
fn another_fits<S: Sink>(lane: &Lane<S>, began: Nanos) -> bool {
    let now = lane.now();
    let schedule = lane.schedule.borrow();
    let next = schedule.next().filter(|_| lane.has_sockets() && schedule.ready_at(now) == Some(now));
    next.is_some_and(|(job, _rows)| {
        !job.model.batching.on() && now.since(began) + job.run_time(job.rows) <= lane.limit.time
    })
}

/// Takes the next batch. Drops jobs that must not run, and moves those that must not run here.
pub(crate) fn take<S: Sink>(lane: &Lane<S>, taken: &mut Taken<Job<S::Model>>) {
    share::share(lane);
    lane.sweep(&mut taken.dropped);
    lane.schedule.borrow_mut().take(lane.now(), lane.limit, taken);
    let now = lane.now();
    for job in taken.dropped.drain(..) {
        let why = job.dropped(now);
        lane.answer(job, Err(why));
    }
    for slow in taken.misplaced.drain(..) {
        lane.send_to_compute(slow);
    }
}

/// Returns once there is a batch to run.
async fn work<S: Sink>(lane: &Lane<S>, inbox: &mut LaneInbox<S::Model>) {
    loop {
        lane.take_in(inbox);
        let now = lane.now();
        let ready_at = lane.schedule.borrow().ready_at(now);
        let window = match ready_at {
            Some(ready_at) if ready_at <= now => return,
            later => later.map(|later| later.since(now)),
        };
        let news = async {
            tokio::select! {
                // Other lanes drop their senders only when this lane ends too.
                Some(job) = inbox.0.recv() => lane.push(job),
                () = lane.arrived.notified() => {}
            }
        };
        match window {
            Some(window) => drop(tokio::time::timeout(window, news).await),
            None => news.await,
        }
    }
}

/// Lets every ready connection parse its request. Yields until a round adds no job, or there are enough to fill a batch on
/// every home of the model.
async fn collect<S: Sink>(lane: &Lane<S>, inbox: &mut LaneInbox<S::Model>) {
    loop {
        let (jobs, enough) = {
            let schedule = lane.schedule.borrow();
            let enough = schedule.next().is_some_and(|(job, rows)| {
                rows >= job.rows_within(lane.limit.time).max(1) * job.model.homes.len()
            });
            (schedule.jobs(), enough)
        };
        if enough {
            return;
        }
        tokio::task::yield_now().await;
        lane.take_in(inbox);
        if lane.schedule.borrow().jobs() == jobs {
            return;
        }
    }
}

fn run_batch<S: Sink>(lane: &Lane<S>, batch: &mut Vec<Job<S::Model>>, rows_max: usize) {
    let Some(first) = batch.first() else { return };
    let (model, scale) = (Arc::clone(&first.model), first.scale);
    let rows: usize = batch.iter().map(|job| job.rows).sum();
    let cost_ns: u64 = batch.iter().map(|job| job.cost_ns).sum();
    let expected = model.service.run_time(rows * scale);
    // A run in another process takes no CPU time of this thread.
    let clocked = (share::worth_clocking(expected) && model.moved().is_none()).then(lane.plane.thread_time);
    let began = lane.now();
    let result = join_and_run(lane, &model, batch);
    let ended = lane.now();
    let wall = ended.since(began);
    let took = clocked.map_or(wall, |before| {
        let now = (lane.plane.thread_time)();
        lane.plane.show_cpu(lane.id, now);
        now.saturating_sub(before)
    });
    match result {
        // Another thread uses the session, or the model moves to its other lane: this batch follows it there.
        None => batch.drain(..).for_each(|job| lane.send_to_compute(job)),
        Some(result) => {
            let succeeded = result.is_ok();
            lane.sink.batch(&model.meter, &RunRecord { rows, rows_max, took: wall, succeeded });
            lane.busy_until(ended, expected.max(Duration::from_nanos(cost_ns)));
            settle(lane, &model, batch, result, Run { rows, scale, began, ended, took });
        }
    }
}

/// A finished run.
pub(crate) struct Run {
    pub(crate) rows: usize,
    pub(crate) scale: usize,
    pub(crate) began: Nanos,
    pub(crate) ended: Nanos,
    /// Its cost; CPU time if that was measured.
    pub(crate) took: Duration,
}

/// Charges a run to its model, learns from it, and answers its jobs.
pub(crate) fn settle<S: Sink>(
    lane: &Lane<S>,
    model: &Arc<Model<S::Model>>,
    batch: &mut Vec<Job<S::Model>>,
    result: Result<(), Fault>,
    run: Run,
) {
    lane.socket_cost.ran(run.took);
    lane.schedule.borrow_mut().charge(model.key, run.took);
    learn(model, run.rows * run.scale, run.took, result.as_ref().err(), run.ended);
    match result {
        Ok(()) => parts::reply(lane, batch, run.rows, run.began, run.ended),
        // One bad row must not fail its neighbours: each job runs alone, once.
        Err(fault) if may_fit_alone(fault.kind) && batch.len() > 1 => {
            batch.drain(..).for_each(|job| lane.push(Job { alone: true, ..job }));
        }
        Err(fault) => batch.drain(..).for_each(|job| lane.answer(job, Err(fault.clone()))),
    }
}

/// Whether a batch's fault may be caused by a single row.
fn may_fit_alone(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::RunFailed | FaultKind::RunMemoryExceeded | FaultKind::MemoryFull)
}

/// Updates run time and breaker after a run. A failed run may be due to its input, and tells nothing of run time.
fn learn<M>(model: &Model<M>, rows: usize, took: Duration, fault: Option<&Fault>, now: Nanos) {
    let kind = fault.map(|fault| fault.kind);
    match kind {
        None => model.service.observe(rows, took),
        Some(FaultKind::RunStopped) => model.service.never_inline(),
        Some(_) => {}
    }
    if !matches!(kind, Some(FaultKind::RunStopped | FaultKind::Panicked)) {
        // For the breaker it is enough that the run ended without a stop.
        model.breaker.succeeded();
    } else if model.breaker.failed(now) {
        let (model, version) = (&*model.name, &*model.version);
        tracing::error!(
            model,
            version,
            "the model was stopped or panicked several times in a row; its requests are refused for a while"
        );
    }
}

/// Runs a batch on this lane's session of the model; `None` if another lane uses it. A panic inside a run fails only this
/// batch.
fn join_and_run<S: Sink>(
    lane: &Lane<S>,
    model: &Model<S::Model>,
    batch: &[Job<S::Model>],
) -> Option<Result<(), Fault>> {
    let fault = |kind, text: String| Some(Err(Fault::new(kind, Stage::Infer, text)));
    let Some(home) = lane.plane.home(model, lane.id) else {
        return fault(FaultKind::Panicked, "a job reached a lane without a session of its model".to_owned());
    };
    let run_max =
        if lane.has_sockets() { model.terms.run_max.min(INLINE_STUCK) } else { model.terms.run_max };
    let run = AssertUnwindSafe(|| run_on(lane, home, model, batch, run_max));
    let ran = catch_unwind(run);
    lane.plane.runs.end(lane.id);
    match ran {
        Ok(None) => None,
        Ok(Some(Ok(()))) => Some(Ok(())),
        Ok(Some(Err(RunError::Failed(text)))) => {
            fault(FaultKind::RunFailed, format!("the model failed on this input: {text}"))
        }
        Ok(Some(Err(RunError::MemoryExceeded { wanted, bytes_max }))) => fault(
            FaultKind::RunMemoryExceeded,
            format!(
                "the model needs {} MiB of memory on this input, and a run may use {} MiB (run_memory_bytes_max); send \
                 smaller input, or raise the limit",
                wanted >> 20,
                bytes_max >> 20
            ),
        ),
        Ok(Some(Err(RunError::MemoryFull { bytes_max }))) => Some(Err(memory_full(Stage::Infer, bytes_max))),
        Ok(Some(Err(RunError::Stopped))) if lane.plane.pressure.is_on() => {
            Some(Err(memory_full(Stage::Infer, lane.plane.limits.memory.bytes_max)))
        }
        Ok(Some(Err(RunError::Stopped))) => {
            let ms = run_max.as_millis();
            fault(
                FaultKind::RunStopped,
                format!("the model ran for more than {ms} ms on this input and was stopped"),
            )
        }
        Err(_panic) => fault(FaultKind::Panicked, "the run panicked; see the server's log".to_owned()),
    }
}

fn run_on<S: Sink>(
    lane: &Lane<S>,
    home: &Home,
    model: &Model<S::Model>,
    batch: &[Job<S::Model>],
    run_max: Duration,
) -> Option<Result<(), RunError>> {
    let session = match model.moved() {
        None => &home.session,
        Some(hosted) if lane.id == lane.plane.spare() => hosted,
        Some(_) => return None,
    };
    let mut runner = match session.runner.try_lock() {
        Ok(runner) => runner,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // A lane with sockets does not wait for another lane's run; a compute lane does.
        Err(TryLockError::WouldBlock) if lane.has_sockets() => return None,
        Err(TryLockError::WouldBlock) => session.runner.lock().unwrap_or_else(PoisonError::into_inner),
    };
    runner.clear();
    batch.iter().for_each(|job| runner.add(&job.inputs));
    if let Err(error) = runner.prepare() {
        return Some(Err(error));
    }
    // The run's time starts here: a compute lane may have waited for the session.
    lane.plane.runs.begin(lane.id, &model.name, &session.watched, lane.now().after(run_max));
    let ran = runner.run(&mut lane.outputs.borrow_mut());
    // Frees the memory of large inputs before the next batch.
    runner.clear();
    Some(ran)
}

#[cfg(test)]
mod tests;
