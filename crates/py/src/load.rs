//! The load generator for Python, its echo and its histograms, on their own threads.

use crate::error::{Failure, guarded, json};
use flyball_load::{EchoOptions, LoadError, Payloads, Plan, Run};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

#[pyclass(frozen, module = "flyball._native")]
pub(crate) struct LoadRun(Run);

#[pymethods]
impl LoadRun {
    #[new]
    fn new(py: Python<'_>, plan: &[u8], payloads: &[u8]) -> PyResult<LoadRun> {
        guarded(py, || {
            let plan = Plan::from_json(plan).map_err(|error| Failure::refused("invalid_plan", error))?;
            let payloads = Payloads::from_jsonl(payloads)
                .map_err(|error| Failure::refused("invalid_payloads", error))?;
            Run::start(plan, payloads).map(LoadRun).map_err(|error| failed(&error))
        })
    }

    fn progress(&self) -> (f64, u64) {
        self.0.progress()
    }

    fn phase(&self) -> &'static str {
        self.0.phase().name()
    }

    fn finished(&self) -> bool {
        self.0.finished()
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let outcome = guarded(py, || self.0.result().map_err(|error| failed(&error)))?;
        json(py, &outcome)
    }
}

fn failed(error: &LoadError) -> Failure {
    let code = match error {
        LoadError::Plan(_) => "invalid_plan",
        LoadError::Payloads(_) => "invalid_payloads",
        LoadError::Start(_) | LoadError::Broken(_) => "load_failed",
    };
    Failure::refused(code, error)
}

#[pyfunction]
pub(crate) fn read_histograms<'py>(py: Python<'py>, document: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let merged = guarded(py, || {
        flyball_load::read_histograms(document).map_err(|error| Failure::refused("invalid_histograms", error))
    })?;
    json(py, &merged)
}

#[pyclass(frozen, module = "flyball._native")]
pub(crate) struct Echo(flyball_load::Echo);

#[pymethods]
impl Echo {
    #[new]
    fn new(py: Python<'_>, options: &[u8]) -> PyResult<Echo> {
        guarded(py, || {
            let options = EchoOptions::from_json(options)
                .map_err(|error| Failure::refused("invalid_options", error))?;
            flyball_load::Echo::start(&options)
                .map(Echo)
                .map_err(|error| Failure::refused("cannot_listen", error))
        })
    }

    fn url(&self) -> String {
        self.0.url()
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        guarded(py, || {
            self.0.stop();
            Ok(())
        })
    }
}
