//! What runs gave for each row of a request, for its record: how many rows were in the run, the row's position among them,
//! and the first numbers of each output. Kept and used again; only where there is somebody who records.

use super::entry::{Written, never};
use crate::batch::Ran;
use flyball_decision::row_numbers;
use minicbor::Encoder;
use std::ops::Range;

/// Numbers of one output that are kept of a row.
const NUMBERS_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct RanRows {
    models: usize,
    /// By row, then by model; none where it was not run.
    rows: Vec<Option<RanRow>>,
    /// CBOR, one map for each.
    outputs: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct RanRow {
    pub(super) rows: u32,
    pub(super) position: u32,
    outputs: Range<usize>,
}

impl RanRows {
    pub(super) fn begin(&mut self, rows: usize, models: usize) {
        self.models = models;
        self.rows.clear();
        self.rows.resize(rows * models, None);
        self.outputs.clear();
    }

    /// Takes in what a model gave for the rows `which`, the first of which is the job's first. Outputs are kept of those that
    /// are `whole`.
    pub(super) fn note(&mut self, model: usize, which: &[usize], ran: &Ran, whole: impl Fn(usize) -> bool) {
        for (place, &row) in which.iter().enumerate() {
            let start = self.outputs.len();
            if whole(row) {
                never(outputs(ran, which.len(), place, &mut self.outputs));
            }
            let position = ran.batch.first + place as u32;
            let outputs = start..self.outputs.len();
            self.rows[row * self.models + model] = Some(RanRow { rows: ran.batch.rows, position, outputs });
        }
    }

    /// The models that were run for a row, each with how.
    pub(super) fn of(&self, row: usize) -> impl Iterator<Item = (usize, &RanRow)> + Clone {
        let models = self.rows.get(row * self.models..(row + 1) * self.models).unwrap_or_default();
        models.iter().enumerate().filter_map(|(model, ran)| Some((model, ran.as_ref()?)))
    }

    /// A map in CBOR.
    pub(super) fn outputs(&self, ran: &RanRow) -> &[u8] {
        &self.outputs[ran.outputs.clone()]
    }
}

fn outputs(ran: &Ran, rows: usize, row: usize, out: &mut Vec<u8>) -> Written {
    let mut out = Encoder::new(out);
    let numbers = |output| row_numbers(output, rows, row, NUMBERS_MAX);
    let told = ran.outputs.iter().filter(|output| numbers(output).next().is_some());
    out.map(told.clone().count() as u64)?;
    for output in told {
        out.str(&output.name)?.array(numbers(output).count() as u64)?;
        for number in numbers(output) {
            out.f64(number)?;
        }
    }
    Ok(())
}
