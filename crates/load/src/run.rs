//! One run on its own threads and runtimes, observed and stopped from outside.

use crate::control::{Control, EndedEarly, Phase};
use crate::drive::{Job, Part, drive};
use crate::outcome::Outcome;
use crate::pace::Timer;
use crate::payloads::{PayloadError, Payloads};
use crate::plan::{Plan, PlanError};
use crate::session::Share;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

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

/// A started run. Dropping it stops it, but does not wait.
#[derive(Debug)]
pub struct Run {
    control: Arc<Control>,
    started: Instant,
    warms_up: bool,
    ending: Mutex<Ending>,
}

#[derive(Debug)]
enum Ending {
    Running(Arc<Job>, Vec<JoinHandle<Result<Part, LoadError>>>),
    Known(Box<Result<Outcome, LoadError>>),
}

impl Run {
    /// Checks the plan and starts.
    pub fn start(plan: Plan, mut payloads: Payloads) -> Result<Run, LoadError> {
        let target = Arc::new(plan.check()?);
        payloads.prepare(&plan)?;
        let cpus = cpu_set(plan.cpus.as_deref()).map_err(LoadError::Start)?;
        let (count, warms_up) = (plan.threads, plan.warms_up());
        let control = Arc::new(Control::new(count));
        let job = Arc::new(Job { plan, target, payloads: Arc::new(payloads), control: Arc::clone(&control) });
        // Created before the threads: if one of them does not start, dropping it stops the others.
        let run = Run { control, started: Instant::now(), warms_up, ending: Mutex::new(lost()) };
        let (ready, started) = std::sync::mpsc::sync_channel(count);
        let mut threads = Vec::new();
        for index in 0..count {
            let (job, cpus, ready) = (Arc::clone(&job), cpus, ready.clone());
            let share = Share { index, threads: count };
            let thread = std::thread::Builder::new()
                .name(format!("flyball-load-{index}"))
                .spawn(move || generate(job, share, cpus.as_ref(), &ready));
            threads.push(thread.map_err(|error| LoadError::Start(error.to_string()))?);
        }
        // The threads have the other senders: otherwise waiting for a panicked thread would never end.
        drop(ready);
        for _ in &threads {
            started.recv().map_err(|error| LoadError::Start(error.to_string()))??;
        }
        *run.ending.lock().unwrap_or_else(PoisonError::into_inner) = Ending::Running(job, threads);
        Ok(run)
    }

    /// Elapsed seconds, and finished requests (warm-up included).
    pub fn progress(&self) -> (f64, u64) {
        (self.started.elapsed().as_secs_f64(), self.control.ended_requests.load(Ordering::Relaxed))
    }

    pub fn phase(&self) -> Phase {
        self.control.phase(self.warms_up, Instant::now().into())
    }

    pub fn finished(&self) -> bool {
        self.control.finished()
    }

    /// Ends the run early: sends nothing more and awaits requests in flight.
    pub fn stop(&self) {
        if !self.finished() {
            self.control.end(EndedEarly::Stopped);
        }
    }

    /// Waits for the end. May be called again with the same result.
    pub fn result(&self) -> Result<Outcome, LoadError> {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match std::mem::replace(&mut *ending, lost()) {
            Ending::Known(known) => *known,
            Ending::Running(job, threads) => self.join(&job.plan, threads),
        };
        *ending = Ending::Known(Box::new(known.clone()));
        known
    }

    fn join(
        &self,
        plan: &Plan,
        threads: Vec<JoinHandle<Result<Part, LoadError>>>,
    ) -> Result<Outcome, LoadError> {
        let panicked = |_| Err(LoadError::Broken("its thread panicked".into()));
        let parts: Vec<_> =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
        let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
        Outcome::of(plan, &self.control.course(), parts)
            .ok_or_else(|| LoadError::Broken("it had no thread".into()))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lost() -> Ending {
    Ending::Known(Box::new(Err(LoadError::Broken("its threads were lost".into()))))
}

/// Informs the others however its thread ends: there is one less, and going on without it is pointless.
struct EndOnDrop {
    control: Arc<Control>,
    well: bool,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if !self.well {
            self.control.end(EndedEarly::Stopped);
        }
        self.control.thread_ends();
    }
}

/// One thread of a run, from start to end.
fn generate(
    job: Arc<Job>,
    share: Share,
    cpus: Option<&CpuSet>,
    ready: &SyncSender<Result<(), LoadError>>,
) -> Result<Part, LoadError> {
    let mut ending = EndOnDrop { control: Arc::clone(&job.control), well: false };
    let (runtime, timer) = match prepare(cpus) {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = ready.send(Err(error.clone()));
            return Err(error);
        }
    };
    let _ = ready.send(Ok(()));
    let part = LocalSet::new().block_on(&runtime, drive(job, share, timer));
    ending.well = part.is_ok();
    part
}

pub(crate) fn cpu_set(cpus: Option<&[usize]>) -> Result<Option<CpuSet>, String> {
    let Some(cpus) = cpus else { return Ok(None) };
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(format!("cpu {cpu} exceeds the maximum of {}", CpuSet::MAX_CPU));
        }
        set.set(cpu);
    }
    Ok(Some(set))
}

fn prepare(cpus: Option<&CpuSet>) -> Result<(Runtime, Timer), LoadError> {
    if let Some(cpus) = cpus {
        sched_setaffinity(None, cpus).map_err(|error| {
            LoadError::Start(format!("cannot pin its thread to the plan's cpus: {error}"))
        })?;
    }
    let unstarted = |error: std::io::Error| LoadError::Start(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unstarted)?;
    let timer = {
        let _within = runtime.enter();
        Timer::new().map_err(unstarted)?
    };
    Ok((runtime, timer))
}
