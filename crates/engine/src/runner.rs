//! One ONNX Runtime session with its reused buffers.
//!
//! A runner belongs to one lane at a time: ONNX Runtime's `Run` is not trusted from several threads at once,
//! and `&mut self` enforces it.

use crate::allocator::{self, Denied};
use crate::column::Column;
use crate::division;
use crate::memory::{self, MemoryBudget};
use crate::native::{ProvenTrees, TreeRunner};
use crate::output::OutputBuffer;
use crate::stop::Stop;
use crate::{Artifact, Refusal, Runtime, Signature};
use flyball_core::Tensor;
use ort::session::{Session, SessionInputValue, builder::GraphOptimizationLevel};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// A run without outputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// ONNX Runtime's text, shortened to a line, or ours.
    #[error("{0}")]
    Failed(String),
    #[error("the run was stopped")]
    Stopped,
    #[error("the run needs {} MiB of memory; {} MiB are allowed", .wanted >> 20, .bytes_max >> 20)]
    MemoryExceeded { wanted: u64, bytes_max: u64 },
    #[error("the process would exceed its {} MiB of memory", .bytes_max >> 20)]
    MemoryFull { bytes_max: u64 },
}

/// Stops the current run from another thread, and returns at once.
///
/// It acts on the current run, whichever that is: the caller must know that it is the intended one.
pub type StopRun = Arc<dyn Fn() + Send + Sync>;

/// Runs batches of one model. ONNX Runtime's sessions do; tests use simpler ones.
pub trait Run: Send {
    /// Clears the rows and frees the memory of large ones.
    fn clear(&mut self);

    /// Appends the rows of a request.
    ///
    /// A request has the model's inputs in model order, of the right types, and shapes that differ at most in
    /// the first axis: the tensor stage has checked it.
    fn add(&mut self, inputs: &[Tensor]);

    /// Waits until a run can begin. Not part of the run's time.
    fn prepare(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    /// Runs the model on the added rows, and replaces `outputs`.
    fn run(&mut self, outputs: &mut Vec<Tensor>) -> Result<(), RunError>;

    fn stopper(&self) -> StopRun;
}

pub struct Runner {
    session: Session,
    pub(crate) signature: Arc<Signature>,
    columns: Vec<Column>,
    /// Empty between runs; only its memory is kept.
    values: Vec<SessionInputValue<'static>>,
    outputs: OutputBuffer,
    stop: Arc<Stop>,
    memory: MemoryBudget,
    /// Answers instead of the session, with the same bits: a proof has compared them.
    trees: Option<TreeRunner>,
    /// Where the trees will be, if the model has some.
    pub(crate) proven_trees: Option<ProvenTrees>,
}

/// The log level of a session.
///
/// Lanes' sessions are quiet: some converted models warn at every run, and ONNX Runtime would format a line
/// for each. The probing session logs everything.
#[derive(Clone, Copy)]
pub(crate) enum LogLevel {
    Warnings,
    ErrorsOnly,
}

/// ONNX Runtime's graph optimisation level. Servers use the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphLevel {
    Off,
    Basic,
    Extended,
    #[default]
    All,
}

/// Session options that differ from a server's; the default is a server's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionOptions {
    pub graph: GraphLevel,
    /// The prefix of ONNX Runtime's profile file. Model hosts write none.
    #[serde(skip)]
    pub profile: Option<PathBuf>,
    /// Keep weights unchanged. Otherwise operators may repack them, and a profile does not show their shapes.
    pub weights_as_given: bool,
}

impl Runner {
    pub(crate) fn new(runtime: &Runtime, artifact: &Artifact, voice: LogLevel) -> Result<Runner, Refusal> {
        Runner::with(runtime, artifact, voice, &SessionOptions::default())
    }

    pub(crate) fn with(
        runtime: &Runtime,
        artifact: &Artifact,
        voice: LogLevel,
        options: &SessionOptions,
    ) -> Result<Runner, Refusal> {
        let refuse = |error: ort::Error| Refusal::from_ort(&error);
        let session = session(runtime, artifact, voice, options).map_err(refuse)?;
        let signature = Arc::new(Signature::of(&session)?);
        let columns = signature.inputs.iter().map(|_| Column::default()).collect();
        let outputs = OutputBuffer::new(&signature.outputs);
        let stop = Stop::new().map_err(refuse)?;
        let memory = runtime.memory;
        Ok(Runner {
            session,
            signature,
            columns,
            values: Vec::new(),
            outputs,
            stop,
            memory,
            trees: None,
            proven_trees: None,
        })
    }

    /// From now on the native trees answer.
    pub(crate) fn answer_by(&mut self, trees: TreeRunner) {
        self.trees = Some(trees);
    }

    #[cfg(test)]
    pub(crate) fn answers_natively(&self) -> bool {
        self.trees.is_some()
    }

    /// Runs these trees on the added rows, of which there is at least one.
    pub(crate) fn run_trees(
        &mut self,
        trees: &mut TreeRunner,
        outputs: &mut Vec<Tensor>,
    ) -> Result<(), RunError> {
        outputs.clear();
        self.stop.forget().map_err(|error| self.stop.error(&error))?;
        trees.run(&self.columns[0], &self.stop, &mut self.outputs, outputs)
    }

    /// Ends the session's profile and returns its file.
    pub(crate) fn end_profile(&mut self) -> Result<PathBuf, RunError> {
        let ended = self.session.end_profiling().map_err(|error| self.stop.error(&error))?;
        Ok(PathBuf::from(ended))
    }
}

impl Run for Runner {
    fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
    }

    fn add(&mut self, inputs: &[Tensor]) {
        for (column, input) in self.columns.iter_mut().zip(inputs) {
            column.add(input);
        }
    }

    /// Allocates nothing once its buffers have grown, except what the `ort` crate needs for each value and
    /// what strings need.
    fn run(&mut self, outputs: &mut Vec<Tensor>) -> Result<(), RunError> {
        if self.trees.is_none()
            && let Some(trees) = self.proven_trees.as_ref().and_then(|proven| proven.get())
        {
            self.trees = Some(trees.another());
        }
        if self.columns.first().is_some_and(Column::has_rows)
            && let Some(mut trees) = self.trees.take()
        {
            let ran = self.run_trees(&mut trees, outputs);
            self.trees = Some(trees);
            return ran;
        }
        outputs.clear();
        let stop = &self.stop;
        let failed = |error: ort::Error| stop.error(&error);
        stop.forget().map_err(failed)?;
        let mut values = used_again(std::mem::take(&mut self.values));
        for (column, spec) in self.columns.iter().zip(&self.signature.inputs) {
            values.push(column.value(spec.datatype).map_err(failed)?);
        }
        let (session, inputs) = (&mut self.session, values.as_slice());
        let run = move || division::survive(move || session.run_with_options(inputs, &stop.options));
        let ((given, trapped), taken) = allocator::within(self.memory, run);
        memory::run_ended(taken.peak_bytes, given.is_ok());
        if trapped {
            return Err(RunError::Failed(division::TRAPPED.to_owned()));
        }
        let given = given.map_err(|error| match taken.denied {
            Some(Denied::Run { wanted }) => {
                RunError::MemoryExceeded { wanted, bytes_max: self.memory.run_bytes_max }
            }
            Some(Denied::Process) => RunError::MemoryFull { bytes_max: self.memory.bytes_max },
            None => stop.error(&error),
        })?;
        self.outputs.read(given, outputs).map_err(failed)?;
        self.values = used_again(values);
        Ok(())
    }

    fn stopper(&self) -> StopRun {
        let stop = Arc::clone(&self.stop);
        Arc::new(move || stop.request())
    }
}

/// Reuses a vector's memory for values of another lifetime.
#[expect(clippy::unnecessary_filter_map, reason = "a filter would keep the lifetime of the items")]
fn used_again<'new>(values: Vec<SessionInputValue<'_>>) -> Vec<SessionInputValue<'new>> {
    // Collecting a vector's own iterator into items of the same size reuses its memory.
    values.into_iter().filter_map(|_| None).collect()
}

/// The execution provider. It may change the last bits of results, so records of decisions name it.
pub const PROVIDER: &str = "CPUExecutionProvider";
pub const INTRA_THREADS: usize = 1;
pub const INTER_THREADS: usize = 1;

fn session(
    runtime: &Runtime,
    artifact: &Artifact,
    voice: LogLevel,
    options: &SessionOptions,
) -> ort::Result<Session> {
    let level = match voice {
        LogLevel::Warnings => ort::logging::LogLevel::Warning,
        LogLevel::ErrorsOnly => ort::logging::LogLevel::Error,
    };
    let graph = match options.graph {
        GraphLevel::Off => GraphOptimizationLevel::Disable,
        GraphLevel::Basic => GraphOptimizationLevel::Level1,
        GraphLevel::Extended => GraphOptimizationLevel::Level2,
        GraphLevel::All => GraphOptimizationLevel::All,
    };
    // One thread and no spinning: lanes are the parallelism, and a spinning pool would take their cores.
    let mut builder = Session::builder(&runtime.environment)?
        .with_optimization_level(graph)?
        .with_intra_threads(INTRA_THREADS)?
        .with_inter_threads(INTER_THREADS)?
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)?
        .with_log_level(level)?;
    if runtime.counted {
        builder = builder.with_env_allocators()?;
    }
    for (name, bytes) in &artifact.external_data {
        builder = builder.with_external_initializer_file_in_memory(name, Arc::clone(bytes))?;
    }
    if options.weights_as_given {
        builder = builder.with_prepacking(false)?;
    }
    if let Some(prefix) = &options.profile {
        builder = builder.with_profiling(prefix)?;
    }
    builder.commit_from_memory(&artifact.model)
}

#[cfg(test)]
pub(crate) mod tests;
