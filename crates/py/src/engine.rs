//! Models, machine, build and snapshot checks for Python.

use crate::error::{Failure, guarded, json};
use flyball_core::snapshot::{Deployment, Document, Index};
use flyball_core::{Digest, TensorSpec};
use flyball_engine::{
    Artifact, ArtifactFile, Batching, Ceiling, DeclaredTensor, LatencyPoint, LatencyTable, LoadOptions,
    MemoryBudget, Opset, Refusal, Runtime, ScanLimits, copy_beside, digest_files, scan_file,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

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
    guarded(py, || copy_beside(&model, &name, &target).map_err(refused))
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
    latency: Vec<LatencyPoint>,
}

#[pyfunction]
pub(crate) fn inspect<'py>(py: Python<'py>, path: PathBuf, options: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let inspection = guarded(py, || inspect_model(&path, options))?;
    json(py, &inspection)
}

fn inspect_model(path: &Path, options: &[u8]) -> Result<Inspection, Failure> {
    let options: InspectOptions =
        serde_json::from_slice(options).map_err(|error| Failure::refused("invalid_options", error))?;
    let runtime =
        Runtime::open(&options.ort_path).map_err(|error| Failure::refused("engine_missing", error))?;
    let artifact = Artifact::read_unverified(path).map_err(refused)?;
    let load = LoadOptions { rows_max: options.rows_max, runners: 1, memory: MemoryBudget::UNLIMITED };
    let loaded = runtime.load(&artifact, load).map_err(refused)?;
    let latency = LatencyTable::default();
    loaded.surveyor.survey(&latency, &|| false);
    Ok(Inspection {
        digest: artifact.digest,
        size_bytes: artifact.size_bytes(),
        opset: artifact.facts.opset,
        producer: artifact.facts.producer,
        nodes: artifact.facts.nodes,
        ort_version: runtime.version().to_owned(),
        inputs: loaded.signature.inputs.clone(),
        outputs: loaded.signature.outputs.clone(),
        batching: loaded.batching,
        latency: latency.points().unwrap_or_default().to_vec(),
    })
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
        let faults = match kind {
            "index" => Index::read(document).err(),
            "deployment" => Deployment::read(document).err(),
            other => {
                return Err(Failure::refused(
                    "invalid_options",
                    format!("'{other}' is no kind; use index or deployment"),
                ));
            }
        };
        Ok(faults.map(|faults| faults.0).unwrap_or_default())
    })?;
    json(py, &faults)
}
