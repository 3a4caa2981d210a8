//! Computes a decision's columns and features without running a model, for Python.
//!
//! Columns of the first model are used to compare transforms with other libraries; computed features are used
//! to train models. Runs the walk's own code; the model need not exist.

use crate::error::{Failure, guarded, json, options};
use flyball_core::{DataType, RowSink, TensorSpec};
use flyball_decision::{
    DecisionDocument, FeatureFrom, FeaturePlan, ModelFacts, Program, Rows, Scores, Scratch, Value as Held,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Map, Value};

#[pyfunction]
pub(crate) fn transform_columns<'py>(
    py: Python<'py>,
    document: &[u8],
    rows: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let columns = guarded(py, || columns(document, rows))?;
    let bytes: Vec<u8> = columns.iter().flat_map(|column| column.to_le_bytes()).collect();
    Ok(PyBytes::new(py, &bytes))
}

#[pyfunction]
pub(crate) fn compute_features<'py>(
    py: Python<'py>,
    document: &[u8],
    rows: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let features = guarded(py, || computed(document, rows))?;
    json(py, &features)
}

/// Row after row, in the order of the model's columns.
fn columns(document: &[u8], rows: &[u8]) -> Result<Vec<f64>, Failure> {
    let program = compiled(&options(document)?)?;
    let rows = taken(&program, rows)?;
    let (mut scores, mut scratch) = (Scores::default(), Scratch::default());
    program.begin_scores(&rows, &mut scores);
    let (mut all, mut one) = (Vec::new(), Vec::new());
    for row in 0..rows.len() {
        program.columns(0, &rows, row, &scores, &mut scratch, &mut one);
        all.append(&mut one);
    }
    Ok(all)
}

/// The values of computed features by name, row after row; none: missing. Times in nanoseconds since 1970.
fn computed(document: &[u8], rows: &[u8]) -> Result<Map<String, Value>, Failure> {
    let document = DecisionDocument::read(&options(document)?).map_err(refused)?;
    let program = Program::compile(&document, &[]).map_err(refused)?;
    let rows = taken(&program, rows)?;
    let features = program.features.iter().filter(|plan| matches!(plan.from, FeatureFrom::Compute(_)));
    let column = |plan: &FeaturePlan| {
        (0..rows.len()).map(|row| shown(plan, &rows, rows.value(row, plan.slot))).collect()
    };
    Ok(features.map(|plan| (plan.name.to_string(), Value::Array(column(plan)))).collect())
}

fn shown(plan: &FeaturePlan, rows: &Rows, value: Held) -> Value {
    match value {
        Held::Missing => Value::Null,
        Held::Bool(value) => value.into(),
        Held::Int(value) => value.into(),
        Held::Float(value) => value.into(),
        Held::Text(text) => rows.text(text).into(),
        Held::Category(place) => plan.field().values.get(place as usize).cloned().into(),
        Held::Time(nanos) => nanos.into(),
    }
}

/// The rows with their features: given and computed ones.
fn taken(program: &Program, rows: &[u8]) -> Result<Rows, Failure> {
    let given: Vec<Map<String, Value>> = options(rows)?;
    let mut rows = Rows::default();
    program.begin(&mut rows);
    let mut reader = program.reader_of_features(&mut rows);
    for row in &given {
        reader.row(None);
        row.iter().for_each(|(name, value)| reader.field(name, value.into()));
    }
    reader.finish();
    for row in 0..rows.len() {
        if let Some(fault) = rows.faults(row).next() {
            let text = format!("row {row}, field {}: allowed is {}", fault.field, fault.allowed);
            let faults = serde_json::json!([{"path": fault.field.to_string(), "is": null, "allowed": fault.allowed.to_string()}]);
            let refused = Failure::refused("fields_invalid", text);
            return Err(Failure { faults: Some(faults), row: Some(row), ..refused });
        }
        for feature in 0..program.features.len() {
            program.compute(&mut rows, row, feature);
        }
    }
    Ok(rows)
}

/// The program with an FP64 model, so that columns are returned as computed.
fn compiled(value: &Value) -> Result<Program, Failure> {
    let document = DecisionDocument::read(value).map_err(refused)?;
    let [model] = document.models.as_slice() else {
        return Err(refused("exactly one model is needed"));
    };
    let spec = |name: &str, columns: usize| TensorSpec {
        name: name.to_owned(),
        datatype: DataType::Fp64,
        shape: vec![-1, columns as i64],
    };
    let inputs: Vec<_> = model.inputs.iter().map(|input| spec(&input.tensor, input.columns.len())).collect();
    let outputs = [spec(&model.score.output, model.score.element as usize + 1)];
    let facts = ModelFacts { version: &model.version, inputs: &inputs, outputs: &outputs, explain: None };
    Program::compile(&document, &[facts]).map_err(refused)
}

fn refused(error: impl ToString) -> Failure {
    Failure::refused("decision_refused", error)
}
