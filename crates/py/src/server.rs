//! The data plane inside a Python process, on its own Rust threads.
//!
//! Only the thread that runs a client's load takes the GIL, to ask Python for the newest snapshot.

use crate::engine::host_command;
use crate::error::{Failure, guarded, json};
use flyball_core::snapshot::{Bundle, SourceError};
use flyball_server::{CallersError, Server as DataPlane, ServerConfig, StartError, check_callers};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json as object;
use std::path::PathBuf;
use std::time::Duration;

#[pyclass(frozen, module = "flyball._native")]
pub(crate) struct Server(DataPlane);

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (config, snapshot, on_load=None))]
    fn new(py: Python<'_>, config: &[u8], snapshot: &[u8], on_load: Option<Py<PyAny>>) -> PyResult<Server> {
        let host = host_command(py)?;
        guarded(py, || {
            let config =
                ServerConfig::read(config).map_err(|faults| unstarted(StartError::Config(faults)))?;
            let bundle = Bundle::from_memory(snapshot).map_err(faulty)?;
            let server = DataPlane::start(config, &bundle, Some(host)).map_err(unstarted)?;
            if let Some(on_load) = on_load {
                server.on_load(Box::new(move |model, config, serves| {
                    newest(&on_load, (model, config, serves))
                }));
            }
            Ok(Server(server))
        })
    }

    fn addresses(&self) -> Vec<String> {
        self.0.addresses().iter().map(ToString::to_string).collect()
    }

    fn ready_line(&self) -> String {
        self.0.ready_line()
    }

    fn acks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        json(py, &self.0.acks())
    }

    fn deployments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        json(py, &*self.0.deployments())
    }

    fn apply<'py>(&self, py: Python<'py>, snapshot: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let acks = guarded(py, || Ok(self.0.apply(&Bundle::from_memory(snapshot).map_err(faulty)?)))?;
        json(py, &acks)
    }

    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        guarded(py, || self.0.drain().map_err(|error| Failure::refused("no_resources", error)))
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = Duration::try_from_secs_f64(timeout_s.max(0.0)).unwrap_or(Duration::MAX);
        guarded(py, || Ok(self.0.wait(timeout)))
    }

    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let totals = self.0.totals();
        json(
            py,
            &object!({
                "received": totals.received, "answered": totals.answered, "refused": totals.refused,
                "failed": totals.failed, "abandoned": totals.abandoned, "in_flight": totals.in_flight(),
            }),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The loading thread may be waiting for the GIL, and both the server's end and its drain wait for
        // that thread.
        Python::attach(|py| py.detach(|| self.0.end()));
    }
}

/// Asks Python for the snapshot with the model: the path of its index, or none. Errors are texts without their class.
fn newest(on_load: &Py<PyAny>, load: (&str, Option<&str>, bool)) -> Result<Option<Bundle>, String> {
    let path: Result<Option<PathBuf>, String> = Python::attach(|py| {
        let found = on_load.call1(py, load).and_then(|found| found.extract(py));
        found.map_err(|error: PyErr| error.value(py).to_string())
    });
    match path? {
        None => Ok(None),
        Some(path) => Bundle::from_file(&path).map(Some).map_err(|error| error.to_string()),
    }
}

fn unstarted(error: StartError) -> Failure {
    match &error {
        StartError::Config(faults) => {
            let faults = serde_json::to_value(faults).ok();
            Failure { faults, ..Failure::refused("invalid_config", "the settings are not allowed") }
        }
        StartError::Library(_) => Failure::refused("engine_missing", error),
        StartError::Callers(CallersError::Faulty { faults, .. }) => {
            let faults = serde_json::to_value(faults).ok();
            Failure { faults, ..Failure::refused("invalid_config", "the callers file is invalid") }
        }
        StartError::Tls(_)
        | StartError::Callers(_)
        | StartError::Trust(_)
        | StartError::Unwatchable
        | StartError::Journal(_)
        | StartError::Nobody { .. } => Failure::refused("invalid_config", error),
        StartError::Bind { .. } => Failure::refused("cannot_listen", error),
        StartError::MemoryLock(_) | StartError::Thread(_) => Failure::refused("no_resources", error),
    }
}

fn faulty(error: SourceError) -> Failure {
    let faults = match &error {
        SourceError::Faulty { faults, .. } => serde_json::to_value(&faults.0).ok(),
        SourceError::Unreadable { .. } => None,
    };
    Failure { faults, ..Failure::refused("snapshot_refused", error) }
}

/// All faults of a "server" configuration or a "callers" file, sorted by path.
#[pyfunction]
pub(crate) fn check_config<'py>(
    py: Python<'py>,
    kind: &str,
    document: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let faults = guarded(py, || match kind {
        "server" => Ok(ServerConfig::read(document).err().unwrap_or_default()),
        "callers" => Ok(check_callers(document)),
        other => {
            Err(Failure::refused("invalid_options", format!("'{other}' is no kind; use server or callers")))
        }
    })?;
    json(py, &faults)
}
