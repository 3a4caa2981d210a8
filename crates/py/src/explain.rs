//! Contributions for Python: checks sidecars of `flyball.explain` with the data plane's code.

use crate::error::{Failure, guarded};
use flyball_decision::{Trees, Workspace};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

#[pyfunction]
pub(crate) fn contributions<'py>(
    py: Python<'py>,
    sidecar: &[u8],
    rows: &[u8],
    columns: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = guarded(py, || {
        let trees = Trees::read(sidecar).map_err(|allowed| refused(&allowed))?;
        if trees.columns() != columns {
            return Err(refused(&format!("{columns} columns; it has {}", trees.columns())));
        }
        let (values, odd) = rows.as_chunks::<4>();
        if !odd.is_empty() || values.len() % columns != 0 {
            let message = format!("rows must be whole rows of {columns} numbers of 4 bytes");
            return Err(Failure::refused("invalid_input", message));
        }
        Ok(explain(&trees, values))
    })?;
    Ok(PyBytes::new(py, &bytes))
}

fn refused(allowed: &str) -> Failure {
    Failure::refused("invalid_input", format!("the explain sidecar must be {allowed}"))
}

fn explain(trees: &Trees, values: &[[u8; 4]]) -> Vec<u8> {
    let columns = trees.columns();
    let mut work = Workspace::default();
    let mut row = Vec::with_capacity(columns);
    let mut parts = vec![0.0; columns];
    let mut answer = Vec::with_capacity(values.len() / columns * (columns + 1) * 8);
    for values in values.chunks_exact(columns) {
        row.clear();
        row.extend(values.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))));
        parts.fill(0.0);
        trees.contributions(&row, &mut work, &mut parts);
        answer.extend(parts.iter().chain([&trees.base()]).flat_map(|part| part.to_le_bytes()));
    }
    answer
}
