//! One model for Python, run by the serving engine: results and timings without a server.

use crate::engine::{model_hosts, probe_limits, refused, runtime};
use crate::error::{self, Failure, guarded, json};
use bytes::Bytes;
use flyball_core::{FaultKind, RequestLimits, Tensor};
use flyball_engine::{
    Artifact, GraphLevel, ModelHosts, RunError, SessionOptions, StandaloneError, StandaloneModel,
};
use flyball_wire::{read_raw, write_raw};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A server's limits, by its default limit on bodies.
const LIMITS: RequestLimits = RequestLimits::for_body(64 << 20);
/// Maximum delay of Ctrl-C while a model runs.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

#[pyclass(frozen, module = "flyball._native")]
pub(crate) struct Model(Mutex<StandaloneModel>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelOptions {
    ort_path: PathBuf,
    probe_ms_max: u64,
    #[serde(default)]
    graph: GraphLevel,
    profile: Option<PathBuf>,
    #[serde(default)]
    weights_as_given: bool,
}

/// A tensor in Python: name, datatype, shape, elements.
type Given = (String, String, Vec<i64>, PyBackedBytes);
type Answered<'py> = (String, &'static str, Vec<i64>, Bound<'py, PyBytes>);

#[pymethods]
impl Model {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, options: &[u8]) -> PyResult<Model> {
        let hosts = model_hosts(py)?;
        guarded(py, || load(&path, options, hosts).map(|model| Model(Mutex::new(model))))
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let facts = guarded(py, || Ok(self.locked(|model| model.facts().clone())))?;
        json(py, &facts)
    }

    fn made_up<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Vec<Answered<'py>>> {
        let inputs = guarded(py, || self.locked(|model| model.sample_rows(rows)).map_err(failure))?;
        Ok(answered(py, &inputs))
    }

    fn run<'py>(&self, py: Python<'py>, inputs: Vec<Given>) -> PyResult<Vec<Answered<'py>>> {
        let outputs = self.interruptible(py, inputs, StandaloneModel::run)?;
        Ok(answered(py, &outputs))
    }

    fn measure<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Given>,
        runs: usize,
        warm_runs: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let figures = self.interruptible(py, inputs, |model, given| model.measure(given, runs, warm_runs))?;
        json(py, &figures)
    }

    fn end_profile(&self, py: Python<'_>) -> PyResult<PathBuf> {
        guarded(py, || self.locked(StandaloneModel::end_profile).map_err(failure))
    }
}

impl Model {
    fn locked<T>(&self, work: impl FnOnce(&mut StandaloneModel) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs the model on another thread while Python's listens for signals: Ctrl-C stops the run.
    fn interruptible<T: Send>(
        &self,
        py: Python<'_>,
        inputs: Vec<Given>,
        work: impl FnOnce(&mut StandaloneModel, Vec<Tensor>) -> Result<T, StandaloneError> + Send,
    ) -> PyResult<T> {
        let mut interrupt = None;
        let result = guarded(py, || {
            let raw = inputs.into_iter().map(|(name, datatype, shape, elements)| {
                (name, datatype, shape, Bytes::copy_from_slice(&elements))
            });
            let given = read_raw("model.onnx", raw.collect(), &LIMITS)
                .map_err(|fault| Failure::refused("invalid_input", fault.text))?;
            self.locked(|model| listening(model, given, work, &mut interrupt)).map_err(failure)
        });
        interrupt.map_or(result, Err)
    }
}

fn listening<T: Send>(
    model: &mut StandaloneModel,
    given: Vec<Tensor>,
    work: impl FnOnce(&mut StandaloneModel, Vec<Tensor>) -> Result<T, StandaloneError> + Send,
    interrupt: &mut Option<PyErr>,
) -> Result<T, StandaloneError> {
    let stop = model.stopper();
    std::thread::scope(|scope| {
        let (ended, end) = sync_channel(1);
        let running = scope.spawn(move || {
            let result = work(model, given);
            // The listener waits for this.
            let _ = ended.send(());
            result
        });
        while end.recv_timeout(SIGNALS_EVERY) == Err(RecvTimeoutError::Timeout) {
            *interrupt = interrupt.take().or_else(|| Python::attach(|py| py.check_signals().err()));
            // Repeatedly: a stop between two runs of a measurement is cleared by the next.
            if interrupt.is_some() {
                stop();
            }
        }
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn load(path: &Path, options: &[u8], hosts: &ModelHosts) -> Result<StandaloneModel, Failure> {
    let options: ModelOptions = error::options(options)?;
    let runtime = runtime(&options.ort_path)?;
    let artifact = Arc::new(Artifact::read_unverified(path).map_err(refused)?);
    let hosts = hosts.within_limits(probe_limits(options.probe_ms_max));
    let ModelOptions { graph, profile, weights_as_given, .. } = options;
    let session = SessionOptions { graph, profile, weights_as_given };
    runtime.load_standalone(artifact, session, &hosts).map_err(refused)
}

fn failure(error: StandaloneError) -> Failure {
    let message = error.to_string();
    let kind = match error {
        StandaloneError::Misfits(misfits) => {
            let faults = serde_json::to_value(misfits).ok();
            return Failure { faults, ..Failure::refused("invalid_input", message) };
        }
        StandaloneError::Refused(_) => FaultKind::InvalidInput,
        StandaloneError::Run(RunError::Stopped) => FaultKind::RunStopped,
        StandaloneError::Run(RunError::Failed(_)) => FaultKind::RunFailed,
        StandaloneError::Run(RunError::MemoryExceeded { .. }) => FaultKind::RunMemoryExceeded,
        StandaloneError::Run(RunError::MemoryFull { .. }) => FaultKind::MemoryFull,
    };
    Failure::new(kind.label(), message, kind.exit_code())
}

fn answered<'py>(py: Python<'py>, tensors: &[Tensor]) -> Vec<Answered<'py>> {
    let one = |tensor: &Tensor| {
        let elements = PyBytes::new(py, &write_raw(tensor));
        (tensor.name.to_string(), tensor.datatype.name(), tensor.shape.to_vec(), elements)
    };
    tensors.iter().map(one).collect()
}
