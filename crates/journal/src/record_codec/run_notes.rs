//! Notes about the model runs of a request's rows, for their records.
//!
//! For each row: the rows of the run, its position among them, and the first numbers of each output. The memory is
//! reused, and filled only if records are kept.

use super::{Encoded, infallible};
use flyball_core::Tensor;
use minicbor::Encoder;
use std::ops::Range;

#[derive(Default)]
pub struct RunNotes {
    models: usize,
    /// By row, then by model; none if the model did not run.
    rows: Vec<Option<RunNote>>,
    /// CBOR, one map for each.
    outputs: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct RunNote {
    pub(super) rows: u32,
    pub(super) position: u32,
    outputs: Range<usize>,
}

/// A model's run for some rows of a request.
pub struct ModelRun<'a> {
    pub model: usize,
    /// The request's rows, in the order of the run.
    pub rows: &'a [usize],
    /// Rows of the whole run, and the position of the request's first among them.
    pub batch_rows: u32,
    pub first: u32,
    pub outputs: &'a [Tensor],
}

impl RunNotes {
    pub fn begin(&mut self, rows: usize, models: usize) {
        self.models = models;
        self.rows.clear();
        self.rows.resize(rows * models, None);
        self.outputs.clear();
    }

    /// Notes a run. Outputs are kept for rows that are `whole`: `numbers` gives those of an output for the row at a position.
    pub fn note<'t, N: Iterator<Item = f64>>(
        &mut self,
        run: &ModelRun<'t>,
        whole: impl Fn(usize) -> bool,
        numbers: impl Fn(&'t Tensor, usize) -> N,
    ) {
        for (position, &row) in run.rows.iter().enumerate() {
            let start = self.outputs.len();
            if whole(row) {
                infallible(outputs(run.outputs, |output| numbers(output, position), &mut self.outputs));
            }
            let (rows, position) = (run.batch_rows, run.first + position as u32);
            let note = RunNote { rows, position, outputs: start..self.outputs.len() };
            self.rows[row * self.models + run.model] = Some(note);
        }
    }

    /// The models that ran for a row, with their notes.
    pub(super) fn of(&self, row: usize) -> impl Iterator<Item = (usize, &RunNote)> + Clone {
        let models = self.rows.get(row * self.models..(row + 1) * self.models).unwrap_or_default();
        models.iter().enumerate().filter_map(|(model, note)| Some((model, note.as_ref()?)))
    }

    /// A map in CBOR.
    pub(super) fn outputs(&self, note: &RunNote) -> &[u8] {
        &self.outputs[note.outputs.clone()]
    }
}

fn outputs<'t, N: Iterator<Item = f64>>(
    outputs: &'t [Tensor],
    numbers: impl Fn(&'t Tensor) -> N,
    out: &mut Vec<u8>,
) -> Encoded {
    let mut out = Encoder::new(out);
    let numeric = outputs.iter().filter(|output| numbers(output).next().is_some());
    out.map(numeric.clone().count() as u64)?;
    for output in numeric {
        out.str(&output.name)?.array(numbers(output).count() as u64)?;
        for number in numbers(output) {
            out.f64(number)?;
        }
    }
    Ok(())
}
