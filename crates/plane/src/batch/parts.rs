//! Splits a batch's outputs by job and answers the jobs.

use super::{Place, Ran};
use crate::Lane;
use crate::job::Job;
use flyball_core::{Fault, FaultKind, Nanos, Sink, Stage, Tensor, TensorData};

pub(super) fn reply<S: Sink>(
    lane: &Lane<S>,
    batch: &mut Vec<Job<S::Model>>,
    rows: usize,
    began: Nanos,
    ended: Nanos,
) {
    let mut outputs = lane.outputs.borrow_mut();
    // A single job gets them all, whatever their shape.
    let uneven = outputs.iter().find(|output| output.shape.is_empty() || output.rows() != rows);
    if batch.len() > 1
        && let Some(output) = uneven
    {
        let text = format!("output '{}' does not have a row for each row of the batch", output.name);
        let fault = Fault::new(FaultKind::RunFailed, Stage::Infer, text);
        return batch.drain(..).for_each(|job| lane.answer(job, Err(fault.clone())));
    }
    let alone = batch.len() == 1;
    let mut first = 0;
    for mut job in batch.drain(..) {
        // Reuses the inputs' vector for the outputs.
        let mut part = std::mem::take(&mut job.inputs);
        part.clear();
        if alone {
            part.append(&mut outputs);
        } else {
            part.extend(outputs.iter().map(|output| rows_of(output, rows, first, job.rows)));
        }
        let place = Place { rows: rows as u32, first: first as u32 };
        first += job.rows;
        lane.answer(job, Ok(Ran { outputs: part, began, ended, batch: place }));
    }
    // Answers share the outputs' memory; a reference kept here would prevent its reuse by the next run.
    outputs.clear();
}

/// Rows `first..first + count` of a tensor with `rows` rows. Fixed-size elements are shared, not copied.
fn rows_of(output: &Tensor, rows: usize, first: usize, count: usize) -> Tensor {
    let mut shape = output.shape.clone();
    if let Some(axis) = shape.first_mut() {
        *axis = i64::try_from(count).unwrap_or(i64::MAX);
    }
    let data = match &output.data {
        TensorData::Fixed(bytes) => {
            let row = bytes.len() / rows;
            TensorData::Fixed(bytes.slice(first * row..(first + count) * row))
        }
        TensorData::Strings(strings) => {
            let row = strings.len() / rows;
            TensorData::Strings(strings[first * row..(first + count) * row].to_vec())
        }
    };
    Tensor { name: output.name.clone(), datatype: output.datatype, shape, data }
}
