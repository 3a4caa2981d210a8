//! Explains scores: contributions of columns, and the top reasons from them.
//!
//! Trees and linear models are explained exactly from their sidecar data; any other model by running it
//! again. Does not run models: ablation returns rows and receives their scores.

mod quadrature;
mod rank;
mod sidecar;
#[cfg(test)]
mod tests;
mod trees;

pub use rank::{AdverseEnd, ReasonTable};
pub use trees::{Trees, Workspace};

use crate::document::ExplainDocument;
use crate::faults::Faults;

/// The explanation method of one model.
#[derive(Debug)]
pub enum Explainer {
    Trees(Box<Trees>),
    Linear(Linear),
    Ablation(Ablation),
}

/// `coefficient * (x - mean)` for each column, which is exact without interactions.
#[derive(Debug)]
pub struct Linear {
    coefficients: Vec<f64>,
    means: Vec<f64>,
}

/// Each column in turn is set to its baseline; the score's change is its contribution.
#[derive(Debug)]
pub struct Ablation {
    baseline: Vec<f64>,
}

impl Explainer {
    /// Compiles an explainer.
    ///
    /// `file` is the content of `explain.path`, already verified by its digest. `columns` is the number of
    /// columns of all inputs, and `path` is the path of the model's `explain`.
    pub fn compile(
        document: &ExplainDocument,
        file: Option<&[u8]>,
        columns: usize,
        path: &str,
        faults: &mut Faults,
    ) -> Option<Explainer> {
        match document {
            ExplainDocument::Trees { path: name, .. } => {
                let trees = file.ok_or_else(|| "a file that can be read".to_owned()).and_then(Trees::read);
                let trees = trees.and_then(|trees| match trees.columns() {
                    given if given == columns => Ok(trees),
                    given => {
                        Err(format!("a file for the model's {columns} columns; this one is for {given}"))
                    }
                });
                trees
                    .map_err(|text| faults.add(format!("{path}.path"), name.as_str(), text))
                    .ok()
                    .map(|trees| Explainer::Trees(Box::new(trees)))
            }
            ExplainDocument::Linear { coefficients, means } => {
                let sound = [(coefficients, "coefficients"), (means, "means")]
                    .map(|(numbers, key)| check_numbers(numbers, columns, format!("{path}.{key}"), faults));
                (sound == [true; 2]).then(|| {
                    Explainer::Linear(Linear { coefficients: coefficients.clone(), means: means.clone() })
                })
            }
            ExplainDocument::Ablation { baseline } => {
                check_numbers(baseline, columns, format!("{path}.baseline"), faults)
                    .then(|| Explainer::Ablation(Ablation { baseline: baseline.clone() }))
            }
        }
    }
}

fn check_numbers(numbers: &[f64], columns: usize, path: String, faults: &mut Faults) -> bool {
    let sound = numbers.len() == columns && numbers.iter().all(|number| number.is_finite());
    if !sound {
        let allowed = format!("{columns} finite numbers, one for each of the model's columns");
        faults.add(path, numbers.to_vec(), allowed);
    }
    sound
}

impl Linear {
    /// Adds each column's contribution to `out`.
    pub fn contributions(&self, row: &[f64], out: &mut [f64]) {
        for (place, out) in out.iter_mut().enumerate() {
            *out += self.coefficients[place] * (row[place] - self.means[place]);
        }
    }
}

impl Ablation {
    /// Appends the row once for each column that differs from its baseline, with that column replaced.
    ///
    /// `changed` receives the column indexes: at most one for each column.
    pub fn perturb(&self, row: &[f64], rows: &mut Vec<f64>, changed: &mut Vec<u32>) {
        for (column, baseline) in self.baseline.iter().enumerate() {
            if row[column] != *baseline {
                let start = rows.len();
                rows.extend_from_slice(row);
                rows[start + column] = *baseline;
                changed.push(column as u32);
            }
        }
    }

    /// Adds each changed column's contribution to `out`. `scores` are those of the changed rows, in order.
    pub fn contributions(&self, score: f64, scores: &[f64], changed: &[u32], out: &mut [f64]) {
        for (column, without) in changed.iter().zip(scores) {
            out[*column as usize] += score - without;
        }
    }
}
