//! The child's end of a model host: limits itself, then answers frames until its parent is gone.
//!
//! It trusts only its parent. Containing a model's misbehaviour, including crashes, is its purpose.

use super::frame::{self, FrameError};
use super::message::{Answer, Ask, ModelParts, TensorPart, tensors};
use super::process::BUILD;
use super::prove::Proof;
use crate::refusal::out_of_memory;
use crate::runner::LogLevel;
use crate::{Artifact, Run, Runner, Runtime, SessionOptions, give_back, memory};
use flyball_core::Tensor;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Maximum payload: the server's memory bounds models before they are sent.
const PAYLOAD_BYTES_MAX: u64 = u64::MAX;

/// Serves models to the parent over the socket on standard input, and exits with it.
///
/// A process started by a `HostCommand` calls this first, and nothing after it.
pub fn serve_models() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // A model must not gain the server's privileges.
    let _ = rustix::thread::set_no_new_privs(true);
    // If memory runs out, kill this process before the server.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let watched = socket.try_clone()?;
    std::thread::Builder::new().name("parent".to_owned()).spawn(move || end_with_parent(&watched))?;
    answer_frames(&socket)
}

/// Exits with the parent, even while an endless operator runs.
///
/// This thread watches the socket, which closes however the parent ends. A parent-death signal would follow
/// the thread that started the host instead.
fn end_with_parent(socket: &UnixStream) {
    #[cfg(target_os = "linux")]
    let gone = PollFlags::RDHUP;
    #[cfg(not(target_os = "linux"))]
    let gone = PollFlags::HUP;
    loop {
        match poll(&mut [PollFd::new(socket, gone)], None) {
            Err(rustix::io::Errno::INTR) => {}
            // Not `exit`: its handlers destroy what the endless run still uses, and that crashes. SAFETY: it
            // ends the process; nothing is left to be written.
            _ => unsafe { libc::_exit(0) },
        }
    }
}

fn answer_frames(mut socket: &UnixStream) -> io::Result<()> {
    let mut served = Served { runtime: Err("it was not opened".to_owned()), loaded: None };
    loop {
        let (ask, payload) = match frame::read::<Ask>(&mut socket, PAYLOAD_BYTES_MAX) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(()),
            Err(FrameError::Io(error)) => return Err(error),
            Err(FrameError::Garbled(what)) => return Err(io::Error::other(what)),
        };
        let answered = catch_unwind(AssertUnwindSafe(|| served.answer(ask, payload)));
        let (answer, outputs) = match answered {
            Ok(None) => continue,
            Ok(Some(Ok(answered))) => answered,
            Ok(Some(Err(reason))) => (refused(reason), Vec::new()),
            Err(_panic) => (refused("loading it panicked".to_owned()), Vec::new()),
        };
        let mut payload = Vec::new();
        outputs.iter().for_each(|output| drop(TensorPart::of(output, &mut payload)));
        frame::write(&mut socket, &answer, &payload)?;
    }
}

fn refused(reason: String) -> Answer {
    if out_of_memory(&reason) { Answer::OutOfMemory } else { Answer::Refused { reason } }
}

struct Served {
    runtime: Result<Runtime, String>,
    loaded: Option<Runner>,
}

type Answered = Result<(Answer, Vec<Tensor>), String>;

impl Served {
    /// None: no response.
    fn answer(&mut self, ask: Ask, payload: Vec<u8>) -> Option<Answered> {
        Some(match ask {
            Ask::Open { build, ort_path } => {
                self.runtime = if build == BUILD {
                    Runtime::open(&ort_path).map_err(|error| error.to_string())
                } else {
                    Err(format!("its build is {BUILD}, but the server's is {build}: restart the server"))
                };
                return None;
            }
            Ask::Prove { model, rows_max, session, trees, memory_bytes_max } => {
                let proven = self.model(model, payload, memory_bytes_max).and_then(|(runtime, artifact)| {
                    Proof::find(&runtime, &artifact, rows_max, &session, trees).map_err(|why| why.to_string())
                });
                give_back();
                proven.map(|proof| {
                    // A lack of memory is no reason to serve it one row at a time.
                    let reason = proof.batching.reason.as_deref();
                    let short = proof.rows.is_none() && reason.is_some_and(out_of_memory);
                    (if short { Answer::OutOfMemory } else { Answer::Proven(Box::new(proof)) }, Vec::new())
                })
            }
            Ask::Load { model, memory_bytes_max } => {
                self.loaded = None;
                let loaded = self.model(model, payload, memory_bytes_max).and_then(|(runtime, artifact)| {
                    Runner::with(&runtime, &artifact, LogLevel::ErrorsOnly, &SessionOptions::default())
                        .map_err(|why| why.to_string())
                });
                loaded.map(|runner| {
                    self.loaded = Some(runner);
                    (Answer::Loaded, Vec::new())
                })
            }
            Ask::Run { requests } => self.run(&requests, &payload),
        })
    }

    fn model(
        &self,
        model: ModelParts,
        payload: Vec<u8>,
        memory_bytes_max: u64,
    ) -> Result<(Runtime, Artifact), String> {
        let runtime = self.runtime.clone()?;
        limit_memory(memory_bytes_max);
        Ok((runtime, model.artifact(payload)?))
    }

    fn run(&mut self, requests: &[Vec<TensorPart>], payload: &[u8]) -> Answered {
        let requests = tensors(requests, payload)?;
        let runner = self.loaded.as_mut().ok_or("no model is loaded")?;
        runner.clear();
        requests.iter().for_each(|inputs| runner.add(inputs));
        let mut outputs = Vec::new();
        match runner.run(&mut outputs) {
            Ok(()) => {
                let mut elements = Vec::new();
                let parts = outputs.iter().map(|output| TensorPart::of(output, &mut elements)).collect();
                Ok((Answer::Ran { outputs: parts }, outputs))
            }
            Err(why) => Err(why.to_string()),
        }
    }
}

/// Limits memory to this many bytes beyond the current use. Larger allocations fail.
fn limit_memory(bytes_max: u64) {
    let limit = getrlimit(Resource::Data);
    // Private writable memory, as `RLIMIT_DATA` counts it.
    let current = Some(memory::statm_bytes(5).saturating_add(bytes_max));
    let _ = setrlimit(Resource::Data, Rlimit { current: current.min(limit.maximum.or(current)), ..limit });
}
