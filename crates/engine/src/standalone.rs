//! One session of a model without a server, for tools.
//!
//! Loaded as for serving, run on given tensors, timed and profiled. Tools compare, measure and explain models
//! with it before they are served. Knows nothing of Python, nor of what the results are compared with.

use crate::host::{Proof, ProofRequest};
use crate::memory::{give_back, resident_bytes};
use crate::runner::{LogLevel, Run, RunError, Runner, SessionOptions, StopRun};
use crate::sample::SampleRows;
use crate::{Artifact, Batching, MemoryBudget, ModelHosts, NativeTrees, Refusal, Runtime, thread_cpu_time};
use bytes::Bytes;
use flyball_core::{Digest, Tensor, TensorData, TensorSpec};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Maximum runs of one measurement: each stores eight bytes, and quantiles need no more.
pub const RUNS_MAX: usize = 1_000_000;
/// The server's default.
const ROWS_PROBED: usize = 64;

pub struct StandaloneModel {
    runner: Runner,
    sample_rows: Option<SampleRows>,
    profiled: bool,
    facts: StandaloneFacts,
}

#[derive(Clone, Debug, Serialize)]
pub struct StandaloneFacts {
    pub digest: Digest,
    pub size_bytes: u64,
    pub ort_version: String,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    pub batching: Batching,
    /// None: not a tree model.
    pub native: Option<NativeTrees>,
    /// Session creation: parsing, optimising, laying out weights. Without reading and scanning the file.
    pub load_ms: f64,
    /// The growth of the process meanwhile.
    pub resident_bytes: u64,
}

/// An input that does not match the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InputMismatch {
    pub path: String,
    pub is: Option<String>,
    pub allowed: String,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StandaloneError {
    #[error("the inputs do not fit the model")]
    Misfits(Vec<InputMismatch>),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{0}")]
    Refused(String),
}

/// Run durations: wall time, and the thread's mean CPU time a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RunFigures {
    pub runs: usize,
    pub rows: usize,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    pub mean_us: f64,
    pub cpu_us: f64,
}

impl Runtime {
    /// Loads one session.
    ///
    /// Batching is probed on another one, as for serving: this one starts fresh, and its profile contains
    /// only the requested runs.
    pub fn load_standalone(
        &self,
        artifact: Arc<Artifact>,
        options: SessionOptions,
        hosts: &ModelHosts,
    ) -> Result<StandaloneModel, Refusal> {
        let unprofiled = SessionOptions { profile: None, ..options };
        let leaving = &|| false;
        let memory = MemoryBudget::UNLIMITED;
        let ask = ProofRequest { rows_max: ROWS_PROBED, session: &unprofiled, trees: true, memory, leaving };
        let proof = hosts.prove(self, &artifact, &ask)?;
        let runtime = self.clone();
        hosts.within(leaving, move || runtime.load_standalone_proven(&artifact, &options, &proof))
    }

    fn load_standalone_proven(
        &self,
        artifact: &Artifact,
        options: &SessionOptions,
        proof: &Proof,
    ) -> Result<StandaloneModel, Refusal> {
        give_back();
        let (before, began) = (resident_bytes(), Instant::now());
        let mut runner = Runner::with(self, artifact, LogLevel::ErrorsOnly, options)?;
        let load_ms = began.elapsed().as_secs_f64() * 1e3;
        give_back();
        proof.fits(&runner.signature)?;
        // A profile is ONNX Runtime's.
        if options.profile.is_none()
            && let Some(trees) = proof.trees(artifact)?
        {
            runner.answer_by(trees);
        }
        let sample_rows = proof.rows.map(|(length, count)| SampleRows::of(&runner.signature, length, count));
        let facts = StandaloneFacts {
            digest: artifact.digest,
            size_bytes: artifact.size_bytes(),
            ort_version: self.version().to_owned(),
            inputs: runner.signature.inputs.clone(),
            outputs: runner.signature.outputs.clone(),
            batching: proof.batching.clone(),
            native: proof.native.clone(),
            load_ms,
            resident_bytes: resident_bytes().saturating_sub(before),
        };
        Ok(StandaloneModel { runner, sample_rows, profiled: options.profile.is_some(), facts })
    }
}

impl StandaloneModel {
    pub fn facts(&self) -> &StandaloneFacts {
        &self.facts
    }

    pub fn run(&mut self, given: Vec<Tensor>) -> Result<Vec<Tensor>, StandaloneError> {
        self.lay(given)?;
        let mut outputs = Vec::new();
        self.runner.run(&mut outputs)?;
        Ok(outputs)
    }

    /// A handle that stops a run or a measurement from another thread.
    pub fn stopper(&self) -> StopRun {
        self.runner.stopper()
    }

    /// Times runs on the same tensors, on this thread, after warm-up runs.
    pub fn measure(
        &mut self,
        given: Vec<Tensor>,
        runs: usize,
        warm_runs: usize,
    ) -> Result<RunFigures, StandaloneError> {
        if !(1..=RUNS_MAX).contains(&runs) || warm_runs > RUNS_MAX {
            let text = format!(
                "{runs} runs after {warm_runs}: measure 1 to {RUNS_MAX} runs after at most {RUNS_MAX} warm-up runs"
            );
            return Err(StandaloneError::Refused(text));
        }
        let rows = self.lay(given)?;
        let mut outputs = Vec::new();
        let mut runs_us = Vec::with_capacity(runs);
        let mut cpu = thread_cpu_time();
        for run in 0..warm_runs + runs {
            if run == warm_runs {
                cpu = thread_cpu_time();
            }
            let began = Instant::now();
            self.runner.run(&mut outputs)?;
            let took = began.elapsed();
            if run >= warm_runs {
                runs_us.push(took.as_secs_f64() * 1e6);
            }
        }
        let cpu_us = thread_cpu_time().saturating_sub(cpu).as_secs_f64() * 1e6 / runs as f64;
        Ok(RunFigures::of(runs_us, rows, cpu_us))
    }

    /// Sample inputs of this many rows, as used by the probe: the model ran on such rows.
    pub fn sample_rows(&self, rows: usize) -> Result<Vec<Tensor>, StandaloneError> {
        let refuse = |text: String| Err(StandaloneError::Refused(text));
        let Some(sample_rows) = &self.sample_rows else {
            let why = self.facts.batching.reason.as_deref().unwrap_or("it does not run on sample input");
            return refuse(format!("cannot generate sample input for this model ({why}): give it real rows"));
        };
        if rows > 1
            && let Some(reason) = self.runner.signature.no_batch_axis()
        {
            return refuse(format!("{reason}, so it does not accept {rows} rows: use 1"));
        }
        if rows == 0 || rows.saturating_mul(sample_rows.elements()) > SAMPLE_ELEMENTS_MAX {
            let rows_max = SAMPLE_ELEMENTS_MAX / sample_rows.elements();
            return refuse(format!("cannot generate {rows} rows: use 1 to {rows_max}"));
        }
        Ok(joined(&sample_rows.batch(rows)))
    }

    /// Ends the profile and returns its file, which ONNX Runtime writes only now.
    pub fn end_profile(&mut self) -> Result<PathBuf, StandaloneError> {
        if !std::mem::take(&mut self.profiled) {
            let text = "no profile is running: load the model with a profile, and end it once";
            return Err(StandaloneError::Refused(text.to_owned()));
        }
        Ok(self.runner.end_profile()?)
    }

    /// Sets the inputs of the next runs; returns their number of rows.
    fn lay(&mut self, given: Vec<Tensor>) -> Result<usize, StandaloneError> {
        let inputs = fitted(given, &self.facts.inputs).map_err(StandaloneError::Misfits)?;
        self.runner.clear();
        self.runner.add(&inputs);
        Ok(inputs.first().map_or(1, Tensor::rows))
    }
}

/// Maximum elements of sample input: at eight bytes each, within a server's limits.
const SAMPLE_ELEMENTS_MAX: usize = 64 << 20;

impl RunFigures {
    fn of(mut runs_us: Vec<f64>, rows: usize, cpu_us: f64) -> RunFigures {
        runs_us.sort_by(f64::total_cmp);
        let runs = runs_us.len();
        let quantile = |share: f64| runs_us[((runs - 1) as f64 * share).round() as usize];
        RunFigures {
            runs,
            rows,
            p50_us: quantile(0.5),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: quantile(1.0),
            mean_us: runs_us.iter().sum::<f64>() / runs as f64,
            cpu_us,
        }
    }
}

/// The given tensors in model order, or all mismatches.
fn fitted(mut given: Vec<Tensor>, specs: &[TensorSpec]) -> Result<Vec<Tensor>, Vec<InputMismatch>> {
    let mut misfits = Vec::new();
    let mut inputs = Vec::with_capacity(specs.len());
    for spec in specs {
        match given.iter().position(|tensor| *tensor.name == *spec.name) {
            Some(place) => inputs.push(given.remove(place)),
            None => misfits.push(input_mismatch(&spec.name, None, format!("required: {}", words(spec)))),
        }
    }
    for extra in &given {
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let allowed = format!("no such input; the model has {}", names.join(", "));
        misfits.push(input_mismatch(&extra.name, Some(&is(extra)), allowed));
    }
    for tensor in &inputs {
        let spec = specs.iter().find(|spec| *spec.name == *tensor.name);
        let fits = |spec: &TensorSpec| spec.datatype == tensor.datatype && spec.admits(&tensor.shape);
        if let Some(spec) = spec.filter(|spec| !fits(spec)) {
            misfits.push(input_mismatch(&spec.name, Some(&is(tensor)), words(spec)));
        }
    }
    if misfits.is_empty() { Ok(inputs) } else { Err(misfits) }
}

fn input_mismatch(name: &str, is: Option<&str>, allowed: String) -> InputMismatch {
    InputMismatch { path: format!("inputs.{name}"), is: is.map(str::to_owned), allowed }
}

fn is(tensor: &Tensor) -> String {
    format!("{} {:?}", tensor.datatype.name(), tensor.shape.as_slice())
}

fn words(spec: &TensorSpec) -> String {
    let any = if spec.shape.contains(&-1) { " (-1 is any size)" } else { "" };
    format!("{} {:?}{any}", spec.datatype.name(), spec.shape)
}

/// The rows concatenated, one tensor for each input.
fn joined(rows: &[&[Tensor]]) -> Vec<Tensor> {
    let mut inputs = rows.first().map_or_else(Vec::new, |row| row.to_vec());
    for (place, input) in inputs.iter_mut().enumerate() {
        if let Some(axis) = input.shape.first_mut() {
            *axis *= rows.len() as i64;
        }
        let parts = rows.iter().map(|row| &row[place].data);
        input.data = match &input.data {
            TensorData::Fixed(_) => TensorData::Fixed(Bytes::from_iter(parts.flat_map(bytes).copied())),
            TensorData::Strings(_) => TensorData::Strings(parts.flat_map(strings).cloned().collect()),
        };
    }
    inputs
}

fn bytes(data: &TensorData) -> &[u8] {
    if let TensorData::Fixed(bytes) = data { bytes } else { &[] }
}

fn strings(data: &TensorData) -> &[Bytes] {
    if let TensorData::Strings(strings) = data { strings } else { &[] }
}

#[cfg(test)]
mod tests;
