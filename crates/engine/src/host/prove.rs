//! Proves a model: loads and probes it in a host before this process touches it.
//!
//! The host's findings are used here, so nothing is probed twice; and a run that ended there on the same
//! input ends here, too.

use super::HostCommand;
use super::message::{Answer, Ask, ModelParts};
use super::process::{Host, HostError, WaitLimit, wall_max};
use crate::latency::LatencyPoint;
use crate::load::{Probed, sizes};
use crate::native::{NativeTrees, TreeRunner};
use crate::reference_rows::{ReferenceRows, join};
use crate::{Artifact, Batching, MemoryBudget, Refusal, Run, Runtime, SessionOptions, Signature};
use bytestring::ByteString;
use flyball_core::Digest;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Limits of loading and probing one model in its own host.
#[derive(Clone, Copy, Debug)]
pub struct ProbeLimits {
    /// CPU time; wall time may be four times as much, because a host yields to serving threads.
    pub cpu_max: Duration,
    /// Memory beyond the host's own; none: what the server's budget leaves.
    pub memory_bytes_max: Option<u64>,
}

impl Default for ProbeLimits {
    fn default() -> ProbeLimits {
        ProbeLimits { cpu_max: Duration::from_secs(30), memory_bytes_max: None }
    }
}

/// The results of probing, without the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Proof {
    signature: Signature,
    pub(crate) batching: Batching,
    /// None: not a tree model, or not asked for.
    pub(crate) native: Option<NativeTrees>,
    pub(crate) points: Vec<LatencyPoint>,
    /// The sample rows that it runs on: the length of their free axes, and their number.
    pub(crate) rows: Option<(i64, usize)>,
}

impl Proof {
    /// Loads and probes a model on this thread, without a time limit.
    pub(crate) fn find(
        runtime: &Runtime,
        artifact: &Artifact,
        rows_max: usize,
        options: &SessionOptions,
        trees: bool,
    ) -> Result<Proof, Refusal> {
        let Probed { mut prober, native, witnesses, batching, points } =
            runtime.probe(artifact, rows_max, options, trees)?;
        if let Some(witnesses) = &witnesses {
            // The same batches that the server times later: a run that ends here ends there.
            for rows in sizes(batching.rows_max) {
                join(&mut prober, &witnesses.sample_rows.batch(rows));
                let _ = prober.run(&mut Vec::new());
            }
        }
        let rows =
            witnesses.map(|ReferenceRows { sample_rows, .. }| (sample_rows.length, sample_rows.count()));
        Ok(Proof { signature: Signature::clone(&prober.signature), batching, native, points, rows })
    }

    /// Checks that a session of the same bytes has the same signature.
    pub(crate) fn fits(&self, signature: &Signature) -> Result<(), Refusal> {
        if self.signature == *signature {
            return Ok(());
        }
        Err(Refusal::Host("its inputs and outputs differ from those in its model host".to_owned()))
    }

    /// The native trees, if they are proven.
    pub(crate) fn trees(&self, artifact: &Artifact) -> Result<Option<TreeRunner>, Refusal> {
        if !self.native.as_ref().is_some_and(|native| native.on) {
            return Ok(None);
        }
        let differs = || Refusal::Host("its trees differ from those in its model host".to_owned());
        match TreeRunner::read(artifact, &self.signature) {
            Some(Ok(trees)) => Ok(Some(trees)),
            _ => Err(differs()),
        }
    }
}

/// The key of a proof, besides this process.
#[derive(Clone, PartialEq)]
pub(super) struct Proven {
    files: Vec<Digest>,
    /// The inputs that were constants of the file.
    optional_inputs: Vec<ByteString>,
    rows_max: usize,
    session: SessionOptions,
    trees: bool,
}

type Proofs = Mutex<VecDeque<(Proven, Arc<Proof>)>>;

/// More than are usually loaded, replaced and loaded again.
const PROOFS_KEPT: usize = 256;
/// A host's minimum memory: a session of a small model, and its probe runs.
const MEMORY_BYTES_LEAST: u64 = 256 << 20;

/// The model hosts of this process.
pub struct ModelHosts {
    /// None: prove in this process, without limits. Only for programs that load their own models.
    pub(super) command: Option<HostCommand>,
    pub(super) limits: ProbeLimits,
    /// An idle host for the next model.
    pub(super) idle: Mutex<Option<Host>>,
    pub(super) proofs: Arc<Proofs>,
}

impl ModelHosts {
    pub fn new(command: Option<HostCommand>, limits: ProbeLimits) -> ModelHosts {
        ModelHosts { command, limits, idle: Mutex::default(), proofs: Arc::default() }
    }

    pub fn in_this_process() -> ModelHosts {
        ModelHosts::new(None, ProbeLimits::default())
    }

    /// The same hosts with other limits; both share known proofs.
    pub fn within_limits(&self, limits: ProbeLimits) -> ModelHosts {
        let proofs = Arc::clone(&self.proofs);
        ModelHosts { proofs, ..ModelHosts::new(self.command.clone(), limits) }
    }

    /// Starts a host ahead of time. If that fails, the first load reports it.
    pub fn prepare(&self, ort_path: &std::path::Path) {
        if let Some(command) = &self.command {
            *self.idle() = Host::start(command, ort_path).ok();
        }
    }

    /// Stops the idle host: nothing is to be loaded for now.
    pub fn rest(&self) {
        drop(self.idle().take());
    }

    fn idle(&self) -> MutexGuard<'_, Option<Host>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Probes a model in a host; rejects it at a limit. Reuses an earlier proof.
    pub(crate) fn prove(
        &self,
        runtime: &Runtime,
        artifact: &Artifact,
        ask: &ProofRequest<'_>,
    ) -> Result<Arc<Proof>, Refusal> {
        let Some(command) = &self.command else {
            return Proof::find(runtime, artifact, ask.rows_max, ask.session, ask.trees).map(Arc::new);
        };
        let proven = Proven {
            files: std::iter::once(artifact.digest)
                .chain(artifact.external_data.iter().map(|(_, bytes)| Digest::of(bytes)))
                .collect(),
            optional_inputs: artifact.defaults.iter().map(|default| default.name.clone()).collect(),
            rows_max: ask.rows_max,
            session: ask.session.clone(),
            trees: ask.trees,
        };
        if let Some(proof) = self.known(&proven) {
            return Ok(proof);
        }
        let waiting = self.idle().take();
        let host = waiting.map_or_else(|| Host::start(command, runtime.path()), Ok);
        let (host, proof) = self.prove_in(host.map_err(Refusal::of_host)?, artifact, ask)?;
        *self.idle() = Some(host);
        let proof = Arc::new(proof);
        // One that ran out of time has fewer findings than possible: probe again.
        if !proof.batching.reason.as_deref().is_some_and(crate::probe::ran_out_of_time) {
            self.keep(proven, &proof);
        }
        Ok(proof)
    }

    fn prove_in(
        &self,
        mut host: Host,
        artifact: &Artifact,
        ask: &ProofRequest<'_>,
    ) -> Result<(Host, Proof), Refusal> {
        let left = ask.memory.bytes_max.saturating_sub(crate::resident_bytes()).min(available_bytes());
        let least = MEMORY_BYTES_LEAST.saturating_add(artifact.size_bytes().saturating_mul(3));
        let memory_bytes_max = self.limits.memory_bytes_max.unwrap_or_else(|| left.max(least));
        let (model, payload) = ModelParts::of(artifact);
        let (rows_max, session) = (ask.rows_max, ask.session.clone());
        let wanted = Ask::Prove { model, rows_max, session, trees: ask.trees, memory_bytes_max };
        let patience = WaitLimit::cpu(self.limits.cpu_max, ask.leaving);
        match host.ask(&wanted, &payload, &patience) {
            Ok((Answer::Proven(proof), _)) => Ok((host, *proof)),
            Ok((Answer::Refused { reason }, _)) => {
                // The host works: the model does not.
                *self.idle() = Some(host);
                Err(Refusal::Host(reason))
            }
            Ok((Answer::OutOfMemory, _)) => Err(match self.limits.memory_bytes_max {
                Some(bytes_max) => Refusal::ProbeMemory { bytes_max },
                // Models that are only kept warm may make room for it.
                None if ask.memory.bytes_max < u64::MAX => ask.memory.refuse(memory_bytes_max),
                None => Refusal::ProbeMemory { bytes_max: memory_bytes_max },
            }),
            Ok(_) => Err(Refusal::of_host(HostError::Garbled("an unexpected response".to_owned()))),
            Err(HostError::TooLong) => Err(self.too_long()),
            Err(error) => Err(Refusal::of_host(error)),
        }
    }

    fn too_long(&self) -> Refusal {
        Refusal::ProbeTime { ms_max: self.limits.cpu_max.as_millis() }
    }

    /// Runs a proven load on another thread with a time limit; abandons the thread beyond it.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        leaving: &dyn Fn() -> bool,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        const LOOK_EVERY: Duration = Duration::from_millis(50);
        if self.command.is_none() {
            return work();
        }
        let until = Instant::now() + wall_max(self.limits.cpu_max);
        let (done, outcome) = sync_channel(1);
        let begin = move || drop(done.send(work()));
        let thread = std::thread::Builder::new().name("sessions".to_owned()).spawn(begin);
        thread.map_err(|error| Refusal::Host(format!("cannot start a thread to load it: {error}")))?;
        loop {
            match outcome.recv_timeout(LOOK_EVERY) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Refusal::Host("loading it panicked".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if leaving() => {
                    return Err(Refusal::of_host(HostError::Leaving));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => return Err(self.too_long()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn known(&self, proven: &Proven) -> Option<Arc<Proof>> {
        let proofs = self.proofs.lock().unwrap_or_else(PoisonError::into_inner);
        proofs.iter().find(|(known, _)| known == proven).map(|(_, proof)| Arc::clone(proof))
    }

    fn keep(&self, proven: Proven, proof: &Arc<Proof>) {
        let mut proofs = self.proofs.lock().unwrap_or_else(PoisonError::into_inner);
        proofs.push_front((proven, Arc::clone(proof)));
        proofs.truncate(PROOFS_KEPT);
    }
}

/// The machine's available memory; unlimited if the kernel does not report it.
fn available_bytes() -> u64 {
    let available = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    std::fs::read_to_string("/proc/meminfo").ok().and_then(available).map_or(u64::MAX, |kib| kib << 10)
}

/// The model and options to prove.
pub(crate) struct ProofRequest<'a> {
    pub(crate) rows_max: usize,
    pub(crate) session: &'a SessionOptions,
    /// Whether native trees are compared with ONNX Runtime, too. A server does so after the load.
    pub(crate) trees: bool,
    pub(crate) memory: MemoryBudget,
    pub(crate) leaving: &'a dyn Fn() -> bool,
}
