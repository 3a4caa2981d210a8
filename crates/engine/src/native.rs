//! Tree models answered by `flyball_trees` instead of ONNX Runtime.
//!
//! Only after `prove` has compared both, bit for bit. The session of ONNX Runtime stays: it gives
//! the signature, and answers whatever is not proven. Knows nothing of requests.

mod prove;

use crate::column::Column;
use crate::output::{OutputBuffer, Written};
use crate::scan::{TreeModel, TreeOutput};
use crate::stop::Stop;
use crate::{Artifact, RunError, Signature};
use bytes::Bytes;
use flyball_core::{DataType, Shape, Tensor};
use flyball_trees::{Answers, Ensemble, Labels, ROWS_AT_ONCE, Unsupported};
pub(crate) use prove::{ProofRuns, prove};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// Whether a tree model's answers are computed here, and what the proof found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeTrees {
    pub on: bool,
    /// The rows compared; or the first difference, or what is not supported.
    pub finding: String,
}

/// Which engine answers for tree models. It must not change a bit, so records of decisions name it.
pub const TREES: &str = "native where bit-equal";

/// Where the runners of a model find its trees, once they are proven.
pub(crate) type ProvenTrees = Arc<OnceLock<TreeRunner>>;

/// One lane's runs of a tree model.
pub(crate) struct TreeRunner {
    model: Arc<Model>,
    answers: Answers,
    /// Those of all rows of a run.
    scores: Vec<f32>,
    labels: Vec<i64>,
}

struct Model {
    ensemble: Ensemble,
    outputs: Vec<TreeOutput>,
    /// Labels that are texts.
    texts: Vec<Bytes>,
}

/// Maximum elements kept for the next run; the rest of a larger one is freed.
const KEPT_MAX: usize = 1 << 20;

impl TreeRunner {
    /// None: it is no tree model.
    pub(crate) fn read(
        artifact: &Artifact,
        signature: &Signature,
    ) -> Option<Result<TreeRunner, Unsupported>> {
        let read = TreeModel::read(&artifact.model)?;
        Some(read.and_then(|read| Model::of(read, signature)).map(|model| TreeRunner::of(Arc::new(model))))
    }

    fn of(model: Arc<Model>) -> TreeRunner {
        TreeRunner { model, answers: Answers::default(), scores: Vec::new(), labels: Vec::new() }
    }

    /// A runner of the same trees for another lane.
    pub(crate) fn another(&self) -> TreeRunner {
        TreeRunner::of(Arc::clone(&self.model))
    }

    pub(crate) fn ensemble(&self) -> &Ensemble {
        &self.model.ensemble
    }

    /// Answers the rows of a column, of which there is at least one.
    ///
    /// A stop takes effect within [`ROWS_AT_ONCE`] rows, which are bounded by the nodes of the trees.
    pub(crate) fn run(
        &mut self,
        column: &Column,
        stop: &Stop,
        buffer: &mut OutputBuffer,
        outputs: &mut Vec<Tensor>,
    ) -> Result<(), RunError> {
        let (shape, elements) = column.floats();
        let &[rows, columns] = shape else {
            return Err(RunError::Failed(format!("a shape of {} axes, but trees take rows", shape.len())));
        };
        let columns = columns as usize;
        let TreeRunner { model, answers, scores, labels } = self;
        if columns < model.ensemble.columns_min() {
            let text = format!("{columns} columns, but the trees test {}", model.ensemble.columns_min());
            return Err(RunError::Failed(text));
        }
        scores.clear();
        labels.clear();
        for rows in elements.chunks(ROWS_AT_ONCE * columns) {
            if stop.requested() {
                return Err(RunError::Stopped);
            }
            model.ensemble.answer(rows, columns, answers);
            scores.extend_from_slice(&answers.scores);
            labels.extend_from_slice(&answers.labels);
        }
        let of_labels = Shape::from_slice(&[rows]);
        let of_scores = Shape::from_slice(&[rows, model.ensemble.scores() as i64]);
        let written = model.outputs.iter().map(|output| match output {
            TreeOutput::Scores => (of_scores.clone(), Written::Fixed(bytemuck::cast_slice(scores))),
            TreeOutput::Labels if model.texts.is_empty() => {
                (of_labels.clone(), Written::Fixed(bytemuck::cast_slice(labels)))
            }
            TreeOutput::Labels => {
                let texts = labels.iter().map(|&label| model.texts[label as usize].clone());
                (of_labels.clone(), Written::Strings(texts.collect()))
            }
        });
        buffer.write(written, outputs);
        scores.shrink_to(KEPT_MAX);
        labels.shrink_to(KEPT_MAX);
        Ok(())
    }
}

impl Model {
    fn of(read: TreeModel, signature: &Signature) -> Result<Model, Unsupported> {
        let TreeModel { attributes, outputs } = read;
        let ensemble = Ensemble::new(attributes)?;
        let refuse = |what: &str| Err(Unsupported(what.to_owned()));
        match &signature.inputs[..] {
            [input] if input.datatype != DataType::Fp32 => {
                return Err(Unsupported(format!("input of {}", input.datatype.name())));
            }
            [input] => match input.shape[..] {
                [_, columns] if columns >= ensemble.columns_min() as i64 => {}
                _ => return refuse("the input does not have all columns that the trees test"),
            },
            _ => return refuse("the model has several inputs"),
        }
        let texts = match ensemble.labels() {
            Some(Labels::Texts(labels)) => labels.iter().map(|label| Bytes::copy_from_slice(label)).collect(),
            _ => Vec::new(),
        };
        let label = if texts.is_empty() { DataType::Int64 } else { DataType::Bytes };
        let fits = |(output, datatype): (&TreeOutput, DataType)| match output {
            TreeOutput::Labels => datatype == label,
            TreeOutput::Scores => datatype == DataType::Fp32,
        };
        let declared = signature.outputs.iter().map(|output| output.datatype);
        if outputs.len() != signature.outputs.len() || !outputs.iter().zip(declared).all(fits) {
            return refuse("the outputs have other types than the trees'");
        }
        Ok(Model { ensemble, outputs, texts })
    }
}

#[cfg(test)]
pub(crate) mod tests;
