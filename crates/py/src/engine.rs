//! Models, machine, build and snapshot checks for Python.

use crate::error::{self, Failure, guarded, json};
use flyball_core::snapshot::check_document;
use flyball_core::{Digest, TensorSpec};
use flyball_engine::{
    Artifact, ArtifactFile, Batching, Ceiling, DeclaredTensor, HostCommand, LatencyPoint, LatencyTable,
    LoadOptions, MemoryBudget, ModelHosts, NativeTrees, Opset, ProbeLimits, Refusal, Runtime, ScanLimits,
    copy_sibling, digest_files, scan_file,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[pyfunction]
pub(crate) fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    json(py, &flyball_server::build_info())
}

#[pyfunction]
pub(crate) fn machine(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    json(py, &flyball_server::machine())
}

#[pyfunction]
pub(crate) fn ceiling(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    let measured = guarded(py, || Ok(Ceiling::measure()))?;
    json(py, &measured)
}

#[pyfunction]
pub(crate) fn runtime_fingerprint(py: Python<'_>, ort_path: PathBuf) -> PyResult<Bound<'_, PyBytes>> {
    let found = guarded(py, || {
        flyball_server::runtime_fingerprint(&ort_path)
            .map_err(|error| Failure::refused("engine_missing", error))
    })?;
    Ok(PyBytes::new(py, &found))
}

#[derive(Serialize)]
struct ModelFiles {
    digest: Digest,
    size_bytes: u64,
    external_data: Vec<ArtifactFile>,
    opset: Vec<Opset>,
    producer: String,
    nodes: u64,
    inputs: Vec<DeclaredTensor>,
    outputs: Vec<DeclaredTensor>,
    optional_inputs: Vec<DeclaredTensor>,
}

#[pyfunction]
pub(crate) fn model_files<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyBytes>> {
    let files = guarded(py, || {
        let (model, external_data, facts) = digest_files(&path).map_err(refused)?;
        Ok(ModelFiles {
            digest: model.digest,
            size_bytes: model.size_bytes,
            external_data,
            opset: facts.opset,
            producer: facts.producer,
            nodes: facts.nodes,
            inputs: facts.inputs,
            outputs: facts.outputs,
            optional_inputs: facts.optional_inputs,
        })
    })?;
    json(py, &files)
}

#[pyfunction]
pub(crate) fn copy_external_data(
    py: Python<'_>,
    model: PathBuf,
    name: String,
    target: PathBuf,
) -> PyResult<()> {
    guarded(py, || copy_sibling(&model, &name, &target).map_err(refused))
}

#[pyfunction]
pub(crate) fn scan_model<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyBytes>> {
    let facts = guarded(py, || scan_file(&path, &ScanLimits::default()).map_err(refused))?;
    json(py, &facts)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InspectOptions {
    ort_path: PathBuf,
    rows_max: usize,
    probe_ms_max: u64,
}

#[derive(Serialize)]
struct Inspection {
    digest: Digest,
    size_bytes: u64,
    opset: Vec<Opset>,
    producer: String,
    nodes: u64,
    ort_version: String,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    batching: Batching,
    native: Option<NativeTrees>,
    latency: Vec<LatencyPoint>,
}

#[pyfunction]
pub(crate) fn inspect<'py>(py: Python<'py>, path: PathBuf, options: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let hosts = model_hosts(py)?;
    let inspection = guarded(py, || inspect_model(&path, options, hosts))?;
    json(py, &inspection)
}

#[pyfunction]
pub(crate) fn prove<'py>(py: Python<'py>, path: PathBuf, options: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let hosts = model_hosts(py)?;
    let batching = guarded(py, || {
        let options: InspectOptions = error::options(options)?;
        let runtime = runtime(&options.ort_path)?;
        let artifact = Artifact::read_unverified(&path).map_err(refused)?;
        let hosts = hosts.within_limits(probe_limits(options.probe_ms_max));
        runtime.prove(&artifact, options.rows_max, &hosts).map_err(refused)
    })?;
    json(py, &batching)
}

/// The entry point of a process started by `model_hosts`.
#[pyfunction]
pub(crate) fn serve_models(py: Python<'_>) -> PyResult<()> {
    guarded(py, || flyball_engine::serve_models().map_err(|error| Failure::refused("no_resources", error)))
}

static HOSTS: OnceLock<ModelHosts> = OnceLock::new();

/// The model hosts of this process: the same interpreter with only this extension.
///
/// Neither the package nor its dependencies are imported there.
pub(crate) fn model_hosts(py: Python<'_>) -> PyResult<&'static ModelHosts> {
    if let Some(hosts) = HOSTS.get() {
        return Ok(hosts);
    }
    let command = host_command(py)?;
    Ok(HOSTS.get_or_init(|| ModelHosts::new(Some(command), ProbeLimits::default())))
}

pub(crate) fn host_command(py: Python<'_>) -> PyResult<HostCommand> {
    const START: &str = "import sys\n\
        from importlib.machinery import ExtensionFileLoader\n\
        from importlib.util import module_from_spec, spec_from_loader\n\
        loader = ExtensionFileLoader('_native', sys.argv[1])\n\
        native = module_from_spec(spec_from_loader('_native', loader))\n\
        loader.exec_module(native)\n\
        native.serve_models()\n";
    let program: PathBuf = py.import("sys")?.getattr("executable")?.extract()?;
    let extension: OsString = py.import("flyball._native")?.getattr("__file__")?.extract()?;
    let arguments = ["-I", "-S", "-c", START].into_iter().map(OsString::from).chain([extension]).collect();
    Ok(HostCommand { program, arguments })
}

pub(crate) fn probe_limits(probe_ms_max: u64) -> ProbeLimits {
    ProbeLimits { cpu_max: Duration::from_millis(probe_ms_max), ..ProbeLimits::default() }
}

fn inspect_model(path: &Path, options: &[u8], hosts: &ModelHosts) -> Result<Inspection, Failure> {
    let options: InspectOptions = error::options(options)?;
    let runtime = runtime(&options.ort_path)?;
    let artifact = Arc::new(Artifact::read_unverified(path).map_err(refused)?);
    let hosts = hosts.within_limits(probe_limits(options.probe_ms_max));
    let load = LoadOptions { rows_max: options.rows_max, runners: 1, memory: MemoryBudget::UNLIMITED };
    let mut loaded = runtime.load(Arc::clone(&artifact), load, &hosts, &|| false).map_err(refused)?;
    hosts.rest();
    let native = loaded.surveyor.prove_trees(&|| false);
    let latency = LatencyTable::default();
    loaded.surveyor.survey(&|| false).into_iter().for_each(|points| latency.fill(points));
    Ok(Inspection {
        digest: artifact.digest,
        size_bytes: artifact.size_bytes(),
        opset: artifact.facts.opset.clone(),
        producer: artifact.facts.producer.clone(),
        nodes: artifact.facts.nodes,
        ort_version: runtime.version().to_owned(),
        inputs: loaded.signature.inputs.clone(),
        outputs: loaded.signature.outputs.clone(),
        batching: loaded.batching,
        native,
        latency: latency.points().unwrap_or_default().to_vec(),
    })
}

pub(crate) fn runtime(library: &Path) -> Result<Runtime, Failure> {
    Runtime::open(library).map_err(|error| Failure::refused("engine_missing", error))
}

pub(crate) fn refused(refusal: Refusal) -> Failure {
    Failure::refused("model_refused", refusal)
}

#[pyfunction]
pub(crate) fn check_snapshot<'py>(
    py: Python<'py>,
    kind: &str,
    document: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let faults = guarded(py, || {
        check_document(kind, document).ok_or_else(|| {
            Failure::refused(
                "invalid_options",
                format!("'{kind}' is no kind; use index, deployment or terms"),
            )
        })
    })?;
    json(py, &faults)
}
