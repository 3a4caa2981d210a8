//! The second walk, of a batch: collect → share → join → run → split → reply.
//!
//! Batching by readiness: the lane first lets every connection whose bytes are here parse its request, then runs the
//! model once for all of them. No window and no timer: alone, a request runs at once; under load the batch grows by
//! itself. It rests on the order in which the runtime polls, which tokio does not promise; a test holds it.

use crate::admission::Permit;
use crate::queue::{Job, Ran};
use crate::walk::Walk;
use crate::{Lane, Model, share};
use flyball_core::{Fault, FaultKind, Sink, Stage, Tensor, TensorData};
use flyball_engine::thread_cpu_time;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use tokio::sync::oneshot;

/// Runs one request's inputs, with whatever else is ready. The permit is proof of admission.
pub(crate) async fn run<S: Sink>(
    lane: &Lane<S>,
    model: &Arc<Model<S::Model>>,
    inputs: Vec<Tensor>,
    permit: Permit,
    walk: &mut Walk<S>,
) -> Result<Vec<Tensor>, Fault> {
    let (reply, answer) = oneshot::channel();
    let rows = inputs.first().map_or(1, Tensor::rows).max(1);
    let cost = model.row_cost().saturating_mul(u32::try_from(rows).unwrap_or(u32::MAX));
    let cost_ns = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
    let job = Job {
        model: Arc::clone(model),
        inputs,
        rows,
        deadline: walk.deadline,
        cost_ns,
        moved: false,
        _permit: permit,
        reply,
    };
    lane.accept(job)?;
    let lost = |_| Fault::new(FaultKind::Panicked, Stage::Infer, "the lane that ran the model went away");
    let ran = match answer.await.map_err(lost).flatten() {
        Ok(ran) => ran,
        // The time until here belongs to the stage that failed, not to the writing of the refusal.
        Err(fault) => return walk.stage(fault.stage, Err(fault)),
    };
    walk.end_at(Stage::Queue, ran.began);
    walk.end_at(Stage::Infer, ran.ended);
    Ok(ran.outputs)
}

/// A lane's batches, one after the other, for as long as it is polled.
pub(crate) async fn walk<S: Sink>(lane: &Lane<S>) {
    let mut batch = Vec::new();
    loop {
        while lane.queue.borrow().jobs() == 0 {
            lane.arrived.notified().await;
        }
        collect(lane).await;
        share::share(lane);
        lane.queue.borrow_mut().take(&mut batch);
        run_batch(lane, &mut batch);
        tokio::task::yield_now().await;
    }
}

/// Lets every ready connection parse its request: yields until a round brings no new job, or enough are here to fill
/// a batch on every home of the model.
async fn collect<S: Sink>(lane: &Lane<S>) {
    loop {
        let (jobs, enough) = {
            let queue = lane.queue.borrow();
            let enough =
                queue.next().is_some_and(|(model, rows)| rows >= model.rows_max() * model.runners.len());
            (queue.jobs(), enough)
        };
        if enough {
            return;
        }
        tokio::task::yield_now().await;
        if lane.queue.borrow().jobs() == jobs {
            return;
        }
    }
}

fn run_batch<S: Sink>(lane: &Lane<S>, batch: &mut Vec<Job<S::Model>>) {
    drop_what_nobody_waits_for(lane, batch);
    let Some(model) = batch.first().map(|job| Arc::clone(&job.model)) else { return };
    let rows: usize = batch.iter().map(|job| job.rows).sum();
    let cpu = share::worth_clocking(&model, rows).then(thread_cpu_time);
    let began = lane.now();
    let result = join_and_run(lane.id, &model, batch);
    let ended = lane.now();
    let took = cpu.map_or(ended.since(began), |before| {
        let now = thread_cpu_time();
        lane.plane.show_cpu(lane.id, now);
        now.saturating_sub(before)
    });
    lane.socket_cost.ran(took);
    lane.sink.batch(&model.meter, rows, ended.since(began));
    let result = result.and_then(|outputs| split(outputs, batch, rows));
    match result {
        Ok(parts) => {
            for (job, outputs) in batch.drain(..).zip(parts) {
                reply(lane, job, Ok(Ran { outputs, began, ended }));
            }
        }
        // One bad row must not fail its neighbours: each gets a run of its own, once.
        Err(fault) if fault.kind == FaultKind::RunFailed && batch.len() > 1 => {
            for job in std::mem::take(batch) {
                run_batch(lane, &mut vec![job]);
            }
        }
        Err(fault) => {
            for job in batch.drain(..) {
                reply(lane, job, Err(fault.clone()));
            }
        }
    }
}

fn reply<S: Sink>(lane: &Lane<S>, job: Job<S::Model>, result: Result<Ran, Fault>) {
    lane.finished(job.cost_ns);
    job.answer(result);
}

/// Callers who hung up and deadlines that have passed cost no compute.
fn drop_what_nobody_waits_for<S: Sink>(lane: &Lane<S>, batch: &mut Vec<Job<S::Model>>) {
    let now = lane.now();
    for gone in batch.extract_if(.., |job| job.late(now) || job.reply.is_closed()) {
        reply(lane, gone, Err(Job::<S::Model>::too_late()));
    }
}

/// A panic inside a run fails this batch, is counted by its fault, and the lane goes on.
fn join_and_run<M>(lane: usize, model: &Model<M>, batch: &[Job<M>]) -> Result<Vec<Tensor>, Fault> {
    let Some(runner) = model.runner(lane) else {
        return Err(Fault::new(
            FaultKind::Panicked,
            Stage::Infer,
            "a job reached a lane that is no home of its model",
        ));
    };
    let mut runner = runner.lock().unwrap_or_else(PoisonError::into_inner);
    let run = AssertUnwindSafe(|| {
        runner.join(&mut batch.iter().map(|job| job.inputs.as_slice()));
        runner.run()
    });
    match catch_unwind(run) {
        Ok(Ok(outputs)) => Ok(outputs),
        Ok(Err(error)) => Err(Fault::new(
            FaultKind::RunFailed,
            Stage::Infer,
            format!("the model failed on this input: {error}"),
        )),
        Err(_panic) => {
            Err(Fault::new(FaultKind::Panicked, Stage::Infer, "the run panicked; see the server's log"))
        }
    }
}

/// Cuts a batch's outputs into each job's own. A single job has them all, whatever their shape.
fn split<M>(outputs: Vec<Tensor>, batch: &[Job<M>], rows: usize) -> Result<Vec<Vec<Tensor>>, Fault> {
    if batch.len() == 1 {
        return Ok(vec![outputs]);
    }
    if let Some(output) = outputs.iter().find(|output| output.shape.is_empty() || output.rows() != rows) {
        let text = format!("output '{}' does not have a row for each row of the batch", output.name);
        return Err(Fault::new(FaultKind::RunFailed, Stage::Infer, text));
    }
    let mut first = 0;
    let parts = batch.iter().map(|job| {
        let part = outputs.iter().map(|output| rows_of(output, rows, first, job.rows)).collect();
        first += job.rows;
        part
    });
    Ok(parts.collect())
}

/// Rows `first..first + count` of a tensor with `rows` rows. Fixed-size elements are shared, not copied.
fn rows_of(output: &Tensor, rows: usize, first: usize, count: usize) -> Tensor {
    let mut shape = output.shape.clone();
    if let Some(axis) = shape.first_mut() {
        *axis = i64::try_from(count).unwrap_or(i64::MAX);
    }
    let data = match &output.data {
        TensorData::Fixed(bytes) => {
            let row = bytes.len() / rows;
            TensorData::Fixed(bytes.slice(first * row..(first + count) * row))
        }
        TensorData::Strings(strings) => {
            let row = strings.len() / rows;
            TensorData::Strings(strings[first * row..(first + count) * row].to_vec())
        }
    };
    Tensor { name: output.name.clone(), datatype: output.datatype, shape, data }
}

#[cfg(test)]
mod tests;
