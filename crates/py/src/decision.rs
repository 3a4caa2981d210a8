//! Checks a decision's document with the Rust compiler, for Python, which has no checker of its own.

use crate::error::{Failure, guarded, json, options};
use flyball_core::TensorSpec;
use flyball_core::snapshot::SnapshotFault;
use flyball_decision::{DecisionDocument, Digests, ModelFacts, Program, StageText};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    version: String,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    explain: Option<PathBuf>,
}

#[derive(Default, Serialize)]
struct Answer {
    faults: Vec<SnapshotFault>,
    stages: Vec<StageText>,
    /// The digests that a release signs; none if the document has faults.
    digests: Option<Digests>,
}

#[pyfunction]
pub(crate) fn check_decision<'py>(
    py: Python<'py>,
    document: &[u8],
    models: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let answer = guarded(py, || checked(document, models))?;
    json(py, &answer)
}

fn checked(document: &[u8], models: &[u8]) -> Result<Answer, Failure> {
    let value = options(document)?;
    let models: Vec<Model> = options(models)?;
    let document = match DecisionDocument::read(&value) {
        Ok(document) => document,
        Err(fault) => return Ok(Answer { faults: vec![fault], ..Answer::default() }),
    };
    let mut files = Vec::with_capacity(models.len());
    for model in &models {
        files.push(model.explain.as_ref().map(std::fs::read).transpose().map_err(|error| {
            Failure::refused(
                "decision_refused",
                format!("cannot read the file that explains a model: {error}"),
            )
        })?);
    }
    let facts: Vec<ModelFacts<'_>> = models
        .iter()
        .zip(&files)
        .map(|(model, file)| ModelFacts {
            version: &model.version,
            inputs: &model.inputs,
            outputs: &model.outputs,
            explain: file.as_deref(),
        })
        .collect();
    Ok(match Program::compile(&document, &facts) {
        Err(faults) => Answer { faults: faults.0, ..Answer::default() },
        Ok(program) => {
            Answer { stages: program.describe(), digests: Some(document.digests()), ..Answer::default() }
        }
    })
}
