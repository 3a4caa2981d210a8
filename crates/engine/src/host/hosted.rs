//! A model that runs in its own host, because one of its runs blocked a lane for good.
//!
//! A run beyond its time limit is stopped by killing the host; the next run gets a new host, which is
//! prepared meanwhile.

use super::message::{Answer, Ask, ModelParts, TensorPart, tensors};
use super::process::{Host, HostError, Process, WaitLimit};
use super::{HostCommand, ModelHosts};
use crate::{Artifact, Refusal, Run, RunError, Runtime, StopRun};
use flyball_core::Tensor;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Reads and verifies the model's files again: its bytes are not kept after loading.
pub type ReadModel = Arc<dyn Fn() -> Result<Artifact, Refusal> + Send + Sync>;

pub struct HostedModel {
    starting: Starting,
    state: State,
    requests: Vec<Vec<Tensor>>,
    run_max: Duration,
    stop: Arc<Stop>,
}

enum State {
    Absent,
    Preparing(Receiver<Result<Host, String>>),
    Ready(Host),
}

/// Stops the current run from another thread.
#[derive(Default)]
struct Stop {
    process: Mutex<Option<Arc<Process>>>,
    asked: AtomicBool,
}

/// The parts needed to start a host of the model.
#[derive(Clone)]
struct Starting {
    command: HostCommand,
    runtime: Runtime,
    read: ReadModel,
    cpu_max: Duration,
    memory_bytes_max: u64,
}

impl HostedModel {
    /// None if this process has no hosts. Starts nothing before the first run.
    pub fn new(
        hosts: &ModelHosts,
        runtime: &Runtime,
        read: ReadModel,
        run_max: Duration,
        memory_bytes_max: u64,
    ) -> Option<HostedModel> {
        let starting = Starting {
            command: hosts.command.clone()?,
            runtime: runtime.clone(),
            read,
            cpu_max: hosts.limits.cpu_max,
            memory_bytes_max: hosts.limits.memory_bytes_max.unwrap_or(memory_bytes_max),
        };
        let stop = Arc::default();
        Some(HostedModel { starting, state: State::Absent, requests: Vec::new(), run_max, stop })
    }

    fn start(&mut self) {
        let (done, ready) = sync_channel(1);
        let starting = self.starting.clone();
        let begin = move || drop(done.send(starting.start()));
        let thread = std::thread::Builder::new().name("model-host".to_owned()).spawn(begin);
        self.state = if thread.is_ok() { State::Preparing(ready) } else { State::Absent };
    }
}

impl Run for HostedModel {
    fn clear(&mut self) {
        self.requests.clear();
    }

    /// Tensors are views of a request's body, so this copies nothing.
    fn add(&mut self, inputs: &[Tensor]) {
        self.requests.push(inputs.to_vec());
    }

    fn run(&mut self, outputs: &mut Vec<Tensor>) -> Result<(), RunError> {
        outputs.clear();
        self.prepare()?;
        let State::Ready(mut host) = std::mem::replace(&mut self.state, State::Absent) else {
            return Err(not_ready("it was not started"));
        };
        self.stop.begin(&host);
        let mut payload = Vec::new();
        let mut requests = Vec::with_capacity(self.requests.len());
        for inputs in &self.requests {
            requests.push(inputs.iter().map(|input| TensorPart::of(input, &mut payload)).collect());
        }
        let answered = host.ask(&Ask::Run { requests }, &payload, &WaitLimit::wall(self.run_max));
        let stopped = self.stop.end();
        match answered {
            Ok((Answer::Ran { outputs: parts }, elements)) => {
                self.state = State::Ready(host);
                let ran = tensors(&[parts], &elements)
                    .map_err(|what| RunError::Failed(format!("the model host sent {what}")))?;
                outputs.extend(ran.into_iter().flatten());
                Ok(())
            }
            Ok((Answer::Refused { reason }, _)) => {
                self.state = State::Ready(host);
                Err(RunError::Failed(reason))
            }
            Ok((Answer::OutOfMemory, _)) => {
                self.state = State::Ready(host);
                let bytes = self.starting.memory_bytes_max;
                let text = format!("it needs more memory than its model host may have ({bytes} bytes)");
                Err(RunError::Failed(text))
            }
            other => {
                drop(host);
                self.start();
                Err(match other {
                    Err(HostError::TooLong) => RunError::Stopped,
                    Err(HostError::Ended(_)) if stopped => RunError::Stopped,
                    Err(error) => RunError::Failed(error.to_string()),
                    Ok(_) => RunError::Failed("the model host returned an unexpected response".to_owned()),
                })
            }
        }
    }

    fn stopper(&self) -> StopRun {
        let stop = Arc::clone(&self.stop);
        Arc::new(move || stop.stop())
    }

    /// Waits until its host is ready. The start is bounded in time.
    fn prepare(&mut self) -> Result<(), RunError> {
        if matches!(self.state, State::Absent) {
            self.start();
        }
        if let State::Preparing(ready) = &self.state {
            let ready = ready.recv().unwrap_or_else(|_| Err("starting it panicked".to_owned()));
            self.state = State::Absent;
            self.state = State::Ready(ready.map_err(|why| not_ready(&why))?);
        }
        if matches!(self.state, State::Ready(_)) { Ok(()) } else { Err(not_ready("cannot start a thread")) }
    }
}

fn not_ready(why: &str) -> RunError {
    RunError::Failed(format!("its model host is not ready: {why}"))
}

impl Starting {
    fn start(&self) -> Result<Host, String> {
        let artifact = (self.read)().map_err(|refusal| refusal.to_string())?;
        let mut host = Host::start(&self.command, self.runtime.path()).map_err(|error| error.to_string())?;
        let (model, payload) = ModelParts::of(&artifact);
        let ask = Ask::Load { model, memory_bytes_max: self.memory_bytes_max };
        match host.ask(&ask, &payload, &WaitLimit::cpu(self.cpu_max, &|| false)) {
            Ok((Answer::Loaded, _)) => Ok(host),
            Ok((Answer::Refused { reason }, _)) => Err(reason),
            Ok(_) => Err("loading it needs more memory than allowed".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Stop {
    fn begin(&self, host: &Host) {
        self.asked.store(false, Ordering::SeqCst);
        *self.process() = Some(Arc::clone(&host.process));
    }

    /// Ends the run. Returns whether a stop was requested meanwhile.
    fn end(&self) -> bool {
        *self.process() = None;
        self.asked.load(Ordering::SeqCst)
    }

    fn stop(&self) {
        if let Some(process) = &*self.process() {
            self.asked.store(true, Ordering::SeqCst);
            process.kill();
        }
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Option<Arc<Process>>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
