//! The models of a decision: their columns, and the output element that is the score. Knows signatures, not
//! sessions.

use crate::document::{DecisionDocument, ExplainDocument, InputDocument, ModelDocument};
use crate::faults::Faults;
use crate::nearest::did_you_mean;
use crate::reasons::{Explainer, ReasonTable};
use crate::schema::label;
use crate::transform::{COLUMNS_MAX, Register, Transforms};
use bytestring::ByteString;
use flyball_core::snapshot::VERSIONS_MAX;
use flyball_core::{DataType, TensorSpec};
use std::collections::HashSet;
use std::sync::Arc;

/// A deployment model's signature and explanation file.
#[derive(Clone, Copy, Debug)]
pub struct ModelFacts<'a> {
    pub version: &'a str,
    pub inputs: &'a [TensorSpec],
    pub outputs: &'a [TensorSpec],
    pub explain: Option<&'a [u8]>,
}

#[derive(Debug)]
pub struct ModelPlan {
    pub name: Arc<str>,
    pub version: Arc<str>,
    /// The column names of all inputs, concatenated.
    pub columns: Vec<String>,
    /// The field or feature behind each column; `NAME.score` for another model's score.
    pub sources: Vec<Arc<str>>,
    /// None: its scores are not explained.
    pub explain: Option<Explainer>,
    pub reasons: ReasonTable,
    pub(crate) inputs: Vec<InputPlan>,
    pub(crate) output: String,
    pub(crate) element: usize,
    /// The transforms that its columns need.
    pub(crate) steps: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct InputPlan {
    pub(crate) name: ByteString,
    pub(crate) datatype: DataType,
    pub(crate) columns: Vec<Feed>,
    /// A tensor without a column axis.
    pub(crate) flat: bool,
}

/// The source of a tensor's column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Feed {
    Number(usize),
    Text(usize),
    /// The score of the model with this index.
    Score(usize),
}

pub(crate) struct Models<'a> {
    pub(crate) document: &'a DecisionDocument,
    pub(crate) facts: &'a [ModelFacts<'a>],
    pub(crate) transforms: &'a Transforms,
    /// The transforms are valid, so an unknown column is a fault.
    pub(crate) sound: bool,
}

impl Models<'_> {
    pub(crate) fn compile(&self, faults: &mut Faults) -> Vec<ModelPlan> {
        let documents = &self.document.models;
        if documents.len() > VERSIONS_MAX {
            faults.add("models", documents.len(), format!("at most {VERSIONS_MAX} models"));
        }
        let mut names = HashSet::new();
        let mut plans = Vec::new();
        for document in documents.iter().take(VERSIONS_MAX) {
            let path = format!("models.{}", document.name);
            if !label(&document.name) {
                faults.add(path, document.name.as_str(), "letters, digits, '_', '-' and '.', at most 64");
            } else if !names.insert(&document.name) {
                faults.add(path, document.name.as_str(), "a name that no other model has");
            } else {
                plans.extend(self.model(document, &path, faults));
            }
        }
        plans
    }

    fn model(&self, document: &ModelDocument, path: &str, faults: &mut Faults) -> Option<ModelPlan> {
        let Some(facts) = self.facts.iter().find(|facts| facts.version == document.version) else {
            let near = did_you_mean(&document.version, self.facts.iter().map(|facts| facts.version));
            let allowed = format!("a version of the deployment{near}");
            faults.add(format!("{path}.version"), document.version.as_str(), allowed);
            return None;
        };
        let before = faults.0.len();
        let inputs = self.inputs(document, facts, path, faults);
        score(document, facts, path, faults);
        let columns: Vec<_> = document.inputs.iter().flat_map(|input| input.columns.clone()).collect();
        if columns.len() > COLUMNS_MAX {
            faults.add(format!("{path}.inputs"), columns.len(), format!("at most {COLUMNS_MAX} columns"));
        }
        let texts = inputs.iter().any(|input| input.datatype == DataType::Bytes);
        if texts && matches!(document.explain, Some(ExplainDocument::Ablation { .. })) {
            faults.add(format!("{path}.explain.by"), "ablation", "a model whose columns are all numbers");
        }
        let explain = document.explain.as_ref().and_then(|explain| {
            Explainer::compile(explain, facts.explain, columns.len(), &format!("{path}.explain"), faults)
        });
        if faults.0.len() > before {
            return None;
        }
        let sources: Vec<_> = columns.iter().map(|column| self.source(column)).collect();
        let registers = inputs.iter().flat_map(|input| &input.columns).filter_map(|feed| match feed {
            Feed::Number(register) => Some(Register::Number(*register)),
            Feed::Text(register) => Some(Register::Text(*register)),
            Feed::Score(_) => None,
        });
        Some(ModelPlan {
            name: document.name.as_str().into(),
            version: document.version.as_str().into(),
            reasons: ReasonTable::new(&sources, &self.document.policy.reasons),
            sources,
            explain,
            steps: self.transforms.needed(registers),
            columns,
            inputs,
            output: document.score.output.clone(),
            element: document.score.element as usize,
        })
    }

    fn source(&self, column: &str) -> Arc<str> {
        self.transforms.column(column).map_or_else(|| column.into(), |column| Arc::clone(&column.source))
    }

    fn inputs(
        &self,
        document: &ModelDocument,
        facts: &ModelFacts<'_>,
        path: &str,
        faults: &mut Faults,
    ) -> Vec<InputPlan> {
        let mut plans = Vec::new();
        for (place, input) in document.inputs.iter().enumerate() {
            let path = format!("{path}.inputs[{place}]");
            let again = document.inputs[..place].iter().any(|before| before.tensor == input.tensor);
            let spec = facts.inputs.iter().find(|spec| spec.name == input.tensor);
            match spec {
                Some(spec) if !again => plans.extend(self.input(document, input, spec, &path, faults)),
                Some(_) => faults.add(format!("{path}.tensor"), input.tensor.as_str(), "each input once"),
                None => {
                    let near =
                        did_you_mean(&input.tensor, facts.inputs.iter().map(|spec| spec.name.as_str()));
                    let allowed = format!("an input of the model{near}");
                    faults.add(format!("{path}.tensor"), input.tensor.as_str(), allowed);
                }
            }
        }
        for spec in facts.inputs {
            if !document.inputs.iter().any(|input| input.tensor == spec.name) {
                let allowed = format!("columns for the model's input '{}' too", spec.name);
                faults.add(format!("{path}.inputs"), document.inputs.len(), allowed);
            }
        }
        plans
    }

    fn input(
        &self,
        document: &ModelDocument,
        input: &InputDocument,
        spec: &TensorSpec,
        path: &str,
        faults: &mut Faults,
    ) -> Option<InputPlan> {
        let columns = match *spec.shape.as_slice() {
            [-1] => Some(1),
            [-1, -1] => Some(input.columns.len()),
            [-1, columns] => usize::try_from(columns).ok(),
            _ => None,
        };
        let Some(columns) = columns else {
            let allowed = "a tensor of shape [-1] or [-1, columns]; export the model with a free first axis";
            faults.add(format!("{path}.tensor"), spec.shape.clone(), allowed);
            return None;
        };
        if input.columns.len() != columns || columns == 0 {
            let allowed = format!("{columns}, as many as the tensor '{}' has", spec.name);
            faults.add(format!("{path}.columns"), input.columns.len(), allowed);
        }
        let feeds = input.columns.iter().enumerate().take(COLUMNS_MAX);
        let feeds = feeds.filter_map(|(place, column)| {
            self.feed(document, column, spec.datatype, format!("{path}.columns[{place}]"), faults)
        });
        let (columns, flat) = (feeds.collect(), spec.shape.len() == 1);
        Some(InputPlan { name: spec.name.as_str().into(), datatype: spec.datatype, columns, flat })
    }

    fn feed(
        &self,
        document: &ModelDocument,
        name: &str,
        datatype: DataType,
        path: String,
        faults: &mut Faults,
    ) -> Option<Feed> {
        let wants_texts = datatype == DataType::Bytes;
        if let Some(column) = self.transforms.column(name) {
            let whole =
                !matches!(datatype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64);
            return match column.register {
                Register::Text(of) if wants_texts => Some(Feed::Text(of)),
                Register::Number(_) if !wants_texts && whole && column.may_miss => {
                    let allowed =
                        format!("a column that is never missing, for {}; impute it", datatype.name());
                    faults.add(path, name, allowed);
                    None
                }
                Register::Number(of) if !wants_texts => Some(Feed::Number(of)),
                other => {
                    let wanted = if wants_texts { "texts" } else { "numbers; encode or cast it first" };
                    let allowed = format!(
                        "for {}, a column of {wanted}; this one has {}",
                        datatype.name(),
                        other.label()
                    );
                    faults.add(path, name, allowed);
                    None
                }
            };
        }
        let of = name.strip_suffix(".score");
        let of = of.and_then(|of| self.document.models.iter().position(|model| model.name == of));
        match of {
            Some(of) if !wants_texts && self.document.models[of].name != document.name => {
                Some(Feed::Score(of))
            }
            Some(_) => {
                faults.add(path, name, "the score of another model, for a tensor of numbers");
                None
            }
            None => {
                if self.sound {
                    let near = did_you_mean(name, self.transforms.names());
                    faults.add(path, name, format!("a column that is there after all transforms{near}"));
                }
                None
            }
        }
    }
}

fn score(document: &ModelDocument, facts: &ModelFacts<'_>, path: &str, faults: &mut Faults) {
    let score = &document.score;
    let Some(spec) = facts.outputs.iter().find(|spec| spec.name == score.output) else {
        let near = did_you_mean(&score.output, facts.outputs.iter().map(|spec| spec.name.as_str()));
        let allowed = format!("an output of the model{near}");
        faults.add(format!("{path}.score.output"), score.output.as_str(), allowed);
        return;
    };
    if spec.datatype == DataType::Bytes || spec.shape.is_empty() {
        let allowed = format!(
            "an output of numbers with one row each; this one is {} {:?}",
            spec.datatype.name(),
            spec.shape
        );
        faults.add(format!("{path}.score.output"), score.output.as_str(), allowed);
        return;
    }
    // The first axis is the rows, whatever size a converter wrote. A free axis is checked at the run.
    let free = spec.shape[1..].iter().any(|&axis| axis < 0);
    let elements = flyball_core::Tensor::elements(&spec.shape[1..]);
    if !free && elements.is_none_or(|elements| score.element as usize >= elements) {
        let allowed =
            format!("the number of an element of a row; '{}' has shape {:?}", spec.name, spec.shape);
        faults.add(format!("{path}.score.element"), score.element, allowed);
    }
}
