//! Why a score came out as it did: contributions of the model's columns, and from them at most a few reasons.
//!
//! Trees and linear models are explained exactly from what lies beside them; any other model by asking it again. Running
//! a model is not done here: ablation gives rows and takes back their scores.

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

/// How one model's answers are explained.
#[derive(Debug)]
pub enum Explainer {
    Trees(Box<Trees>),
    Linear(Linear),
    Ablation(Ablation),
}

/// `coefficient * (x - mean)` for each column, which is exact where columns do not act together.
#[derive(Debug)]
pub struct Linear {
    coefficients: Vec<f64>,
    means: Vec<f64>,
}

/// Each column in turn takes its baseline's value; the score's change is the column's contribution.
#[derive(Debug)]
pub struct Ablation {
    baseline: Vec<f64>,
}

impl Explainer {
    /// `file` is what `explain.path` names, already verified by its digest. `columns` is how many the model takes in all
    /// its inputs, and `path` leads to the model's `explain`.
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
    /// Appends to `rows` the row once for each column that is not at its baseline already, with that column there, and
    /// to `changed` which column it was. At most as many as there are columns.
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

    /// Adds to `out` what each changed column had moved the score by. `scores` are those of the changed rows, in order.
    pub fn contributions(&self, score: f64, scores: &[f64], changed: &[u32], out: &mut [f64]) {
        for (column, without) in changed.iter().zip(scores) {
            out[*column as usize] += score - without;
        }
    }
}
