//! The load generator for Python: it runs on a thread of its own, Python only looks on.

use crate::error::{Failure, guarded, json};
use flyball_load::{Payloads, Plan, Run};
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
            Run::start(plan, payloads).map(LoadRun).map_err(|error| Failure::refused("load_failed", error))
        })
    }

    fn progress(&self) -> (f64, u64) {
        self.0.progress()
    }

    fn finished(&self) -> bool {
        self.0.finished()
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let outcome =
            guarded(py, || self.0.result().map_err(|error| Failure::refused("load_failed", error)))?;
        json(py, &outcome)
    }
}
