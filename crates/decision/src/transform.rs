//! Transforms: from values to columns, as flat steps over reused buffers.
//!
//! A column is a list of numbers (f64; missing is NaN), texts or times, one for each row. Missing stays
//! missing through every step except `impute` and `one_hot`. Columns are cast to a tensor's type when the
//! tensor is built, not here.

mod build;
mod codes;
mod coding;
mod compile;
mod frame;
mod map;
mod numbers;
mod step;

pub(crate) use build::{Column, Register};
pub(crate) use frame::{Frame, TextPool};

use crate::document::TransformDocument;
use crate::faults::Faults;
use crate::feature::FeaturePlan;
use crate::field::Field;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use step::Step;

pub(crate) const TRANSFORMS_MAX: usize = 512;
/// Maximum named columns at any time, and columns of one model.
pub(crate) const COLUMNS_MAX: usize = 4096;
/// Maximum columns made by all steps; each has its own memory.
const MADE_MAX: usize = 16_384;

/// Reusable memory for columns.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) frame: Frame,
    pub(crate) bytes: bytes::BytesMut,
    /// Buffers for a model's inputs while its tensors are written.
    pub(crate) pieces: Vec<bytes::BytesMut>,
}

#[derive(Clone, Debug)]
pub(crate) struct Transforms {
    steps: Vec<Step>,
    columns: HashMap<String, Column>,
    /// The values of each category slot.
    categories: Vec<Arc<[String]>>,
    /// Texts inserted by `impute`.
    constants: Vec<Arc<str>>,
    /// The number of columns of numbers, texts and times.
    sizes: [usize; 3],
    /// One for each transform, for `flyball plan`.
    lines: Vec<String>,
}

impl Transforms {
    pub(crate) fn compile(
        documents: &[TransformDocument],
        fields: &[Field],
        features: &[FeaturePlan],
        faults: &mut Faults,
    ) -> Transforms {
        if documents.len() > TRANSFORMS_MAX {
            faults.add("transforms", documents.len(), format!("at most {TRANSFORMS_MAX} transforms"));
        }
        let mut build = build::Build::new(faults);
        let slots = fields.iter().chain(features.iter().map(|feature| &feature.field));
        slots.enumerate().for_each(|(slot, field)| build.load(slot, field));
        for (place, document) in documents.iter().take(TRANSFORMS_MAX).enumerate() {
            compile::transform(document, &format!("transforms[{place}]"), &mut build);
        }
        build.finish(documents.iter().map(compile::described).collect())
    }

    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The steps that these columns need, in order.
    pub(crate) fn needed(&self, columns: impl Iterator<Item = Register>) -> Vec<u32> {
        let mut wanted: HashSet<Register> = columns.collect();
        let mut needed = Vec::new();
        for (place, step) in self.steps.iter().enumerate().rev() {
            if step.writes().any(|register| wanted.contains(&register)) {
                wanted.extend(step.reads());
                needed.push(place as u32);
            }
        }
        needed.reverse();
        needed
    }

    /// Runs these steps for the rows `which`; the results are in the frame.
    pub(crate) fn run(&self, steps: &[u32], rows: &crate::Rows, which: &[usize], frame: &mut Frame) {
        frame.begin(which.len(), self.sizes);
        for &step in steps {
            self.steps[step as usize].run(self, rows, which, frame);
        }
    }
}
