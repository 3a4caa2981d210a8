//! One run: a thread of its own with a runtime of its own, watched and stopped from outside.

use crate::outcome::Outcome;
use crate::payloads::{PayloadError, Payloads};
use crate::plan::{Mode, Plan, PlanError, Protocol, Target};
use crate::session::{Control, Session};
use crate::tally::Measured;
use crate::thread_time::ThreadTime;
use crate::{grpc, http, pace};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, LocalSet};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Payloads(#[from] PayloadError),
    #[error("the generator cannot start: {0}")]
    Start(String),
    #[error("the generator stopped unexpectedly: {0}")]
    Broken(String),
}

/// A run that has begun. Dropping it stops it, but does not wait.
#[derive(Debug)]
pub struct Run {
    control: Arc<Control>,
    started: Instant,
    ending: Mutex<Ending>,
}

#[derive(Debug)]
enum Ending {
    Running(JoinHandle<Result<Outcome, LoadError>>),
    Known(Result<Outcome, LoadError>),
}

impl Run {
    /// Checks the plan, and starts.
    pub fn start(plan: Plan, payloads: Payloads) -> Result<Run, LoadError> {
        let target = plan.check()?;
        let messages = match plan.protocol {
            Protocol::Grpc => payloads.messages(&plan.model)?,
            Protocol::Http => Vec::new(),
        };
        let cpus = cpu_set(plan.cpus.as_deref())?;
        let control = Arc::new(Control::default());
        let finish = FinishOnDrop(Arc::clone(&control));
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("flyball-load".into()).spawn(move || {
            let finish = finish;
            let job = Job { plan, target, payloads, messages };
            match prepare(cpus.as_ref()) {
                Ok(runtime) => {
                    let _ = ready.send(Ok(()));
                    LocalSet::new().block_on(&runtime, drive(&finish.0, job))
                }
                Err(error) => {
                    let _ = ready.send(Err(error.clone()));
                    Err(error)
                }
            }
        });
        let thread = thread.map_err(|error| LoadError::Start(error.to_string()))?;
        started.recv().map_err(|error| LoadError::Start(error.to_string()))??;
        Ok(Run { control, started: Instant::now(), ending: Mutex::new(Ending::Running(thread)) })
    }

    /// Seconds gone, and requests that have ended (warm-up included).
    pub fn progress(&self) -> (f64, u64) {
        (self.started.elapsed().as_secs_f64(), self.control.ended_requests.load(Ordering::Relaxed))
    }

    pub fn finished(&self) -> bool {
        self.control.finished.load(Ordering::Acquire)
    }

    /// Ends the run early: nothing more is sent, what is under way is awaited.
    pub fn stop(&self) {
        self.control.stop();
    }

    /// Waits for the end. May be called again; the answer stays the same.
    pub fn result(&self) -> Result<Outcome, LoadError> {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = Ending::Known(Err(LoadError::Broken("its thread was lost".into())));
        let known = match std::mem::replace(&mut *ending, waiting) {
            Ending::Known(known) => known,
            Ending::Running(thread) => {
                thread.join().unwrap_or_else(|_| Err(LoadError::Broken("its thread panicked".into())))
            }
        };
        *ending = Ending::Known(known.clone());
        known
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.control.stop();
    }
}

/// Says "finished" however the thread ends.
struct FinishOnDrop(Arc<Control>);

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        self.0.finished.store(true, Ordering::Release);
    }
}

struct Job {
    plan: Plan,
    target: Target,
    payloads: Payloads,
    messages: Vec<Vec<u8>>,
}

fn cpu_set(cpus: Option<&[usize]>) -> Result<Option<CpuSet>, LoadError> {
    let Some(cpus) = cpus else { return Ok(None) };
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(LoadError::Start(format!(
                "cpu {cpu} is beyond the {} that can be named",
                CpuSet::MAX_CPU
            )));
        }
        set.set(cpu);
    }
    Ok(Some(set))
}

fn prepare(cpus: Option<&CpuSet>) -> Result<tokio::runtime::Runtime, LoadError> {
    if let Some(cpus) = cpus {
        sched_setaffinity(None, cpus).map_err(|error| {
            LoadError::Start(format!("cannot pin its thread to the plan's cpus: {error}"))
        })?;
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| LoadError::Start(error.to_string()))
}

/// The life of a run: workers, warm-up, the measured time, and the end of what is under way.
async fn drive(control: &Arc<Control>, job: Job) -> Result<Outcome, LoadError> {
    let Job { plan, target, payloads, messages } = job;
    let timeout = target.timeout;
    let begun = Instant::now();
    let measured_from = begun + Duration::from_secs_f64(plan.warmup_s);
    let planned_end = measured_from + Duration::from_secs_f64(plan.duration_s);
    let session = Rc::new(Session::new(target, payloads, Arc::clone(control), plan.mode, measured_from));
    let mut workers = start_workers(&plan, &session, messages);
    let pacer =
        tokio::task::spawn_local(pace(plan.mode, plan.rate_per_s, Rc::clone(&session), begun, planned_end));

    let stopped = until_or_stopped(measured_from, control).await;
    let thread_before = ThreadTime::now();
    if !stopped {
        until_or_stopped(planned_end, control).await;
    }
    let thread = ThreadTime::now().since(thread_before);
    let measured = Measured { start: measured_from, end: Instant::now(), thread };
    session.close();
    if pacer.is_finished() {
        let kept = pacer.await.map_err(|error| LoadError::Broken(error.to_string()))?;
        kept.map_err(|error| LoadError::Broken(format!("its timer failed: {error}")))?;
    } else {
        pacer.abort();
    }

    // What waits for a connection may still go for as long as a request may take; then only what is under way ends.
    match tokio::time::timeout(timeout, join(&mut workers)).await {
        Ok(joined) => joined?,
        Err(_) => {
            session.abandon_backlog();
            join(&mut workers).await?;
        }
    }
    Ok(session.take_tally().outcome(measured))
}

fn start_workers(plan: &Plan, session: &Rc<Session>, messages: Vec<Vec<u8>>) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    let messages = Rc::new(messages);
    for _ in 0..plan.connections {
        let channel = Rc::new(grpc::Channel::default());
        for _ in 0..plan.streams {
            let session = Rc::clone(session);
            match plan.protocol {
                Protocol::Http => workers.spawn_local(async move { http::work(&session).await }),
                Protocol::Grpc => {
                    let (channel, messages) = (Rc::clone(&channel), Rc::clone(&messages));
                    workers.spawn_local(async move { grpc::work(&session, &channel, &messages).await })
                }
            };
        }
    }
    workers
}

async fn pace(
    mode: Mode,
    rate_per_s: Option<f64>,
    session: Rc<Session>,
    begun: Instant,
    end: Instant,
) -> std::io::Result<()> {
    match (mode, rate_per_s) {
        (Mode::Open, Some(rate)) => pace::keep(&session, rate, begun, end).await,
        _ => Ok(()),
    }
}

async fn join(workers: &mut JoinSet<()>) -> Result<(), LoadError> {
    while let Some(worker) = workers.join_next().await {
        worker.map_err(|error| LoadError::Broken(error.to_string()))?;
    }
    Ok(())
}

/// Waits for a point in time; true when the run was stopped before it.
async fn until_or_stopped(time: Instant, control: &Control) -> bool {
    tokio::select! {
        () = tokio::time::sleep_until(time.into()) => false,
        () = control.stopped() => true,
    }
}
