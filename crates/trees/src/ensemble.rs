//! An ensemble that answers rows: walks its trees, adds up what the leaves hold, in ONNX Runtime's order.

use crate::attributes::{Aggregate, Attributes, Labels, Output};
use crate::flat::Flat;
use crate::forest::{Forest, Node, Weight};
use crate::linked::Linked;
use crate::outcome::Outcome;
use crate::transform::Score;
use crate::{ProbeRows, Unsupported};
use std::ops::Range;

/// Rows of one call of [`Ensemble::answer`]: a run of any size can be stopped between two calls.
pub const ROWS_AT_ONCE: usize = 16;

/// A checked ensemble. Its memory is about that of its attributes.
#[derive(Debug)]
pub struct Ensemble {
    form: Form,
    leaves: Leaves,
    outcome: Outcome,
    columns_min: usize,
    /// Of each feature, for rows that test them.
    thresholds: Vec<(u32, f32)>,
}

#[derive(Debug)]
enum Form {
    Flat(Flat),
    Linked(Linked),
}

/// What a leaf's content is.
#[derive(Debug)]
enum Leaves {
    /// The bits of a weight for this class or target.
    One(usize),
    /// The bits of a weight for the class or target of its tree.
    OfTree(Vec<usize>),
    /// The number of its node, which has a range of the weights.
    Many { ranges: Vec<Range<usize>>, weights: Vec<Weight> },
}

/// The answers to some rows, in memory that is used again.
#[derive(Debug, Default)]
pub struct Answers {
    /// Row by row, one for each class or target.
    pub scores: Vec<f32>,
    /// Labels that are numbers, or the places of texts. Empty for a regressor.
    pub labels: Vec<i64>,
    keys: Vec<i32>,
    sums: Vec<Score>,
}

impl Ensemble {
    pub fn new(attributes: Attributes) -> Result<Ensemble, Unsupported> {
        let forest = Forest::of(&attributes)?;
        let leaves = Leaves::of(&forest, attributes.output.scores());
        let content = |place| leaves.content(&forest, place);
        let form = match Flat::of(&forest, content) {
            Some(flat) => Form::Flat(flat),
            None => Form::Linked(Linked::of(&forest, content)),
        };
        let thresholds = forest.nodes.iter().filter_map(|node| match node {
            Node::Branch { feature, threshold, .. } => Some((*feature as u32, *threshold)),
            Node::Leaf { .. } => None,
        });
        let mut thresholds: Vec<(u32, f32)> = thresholds.collect();
        thresholds.sort_by(|one, other| (one.0.cmp(&other.0)).then(one.1.total_cmp(&other.1)));
        thresholds.dedup_by_key(|(feature, threshold)| (*feature, threshold.to_bits()));
        let outcome = Outcome::of(attributes, &forest)?;
        Ok(Ensemble { form, leaves, outcome, columns_min: forest.columns_min, thresholds })
    }

    /// The least columns of a row.
    pub fn columns_min(&self) -> usize {
        self.columns_min
    }

    /// The scores of a row.
    pub fn scores(&self) -> usize {
        self.outcome.output.scores()
    }

    /// None for a regressor.
    pub fn labels(&self) -> Option<&Labels> {
        match &self.outcome.output {
            Output::Classes(labels) => Some(labels),
            Output::Targets { .. } => None,
        }
    }

    /// Rows that test every threshold, for a comparison with another engine.
    pub fn probe_rows(&self, columns: usize) -> ProbeRows {
        ProbeRows::new(columns, &self.thresholds)
    }

    /// Answers at most [`ROWS_AT_ONCE`] rows; replaces the answers. Time is bounded by rows times nodes.
    ///
    /// # Panics
    /// If rows have fewer columns than the ensemble tests.
    pub fn answer(&self, rows: &[f32], columns: usize, answers: &mut Answers) {
        assert!(columns >= self.columns_min, "rows have fewer columns than the ensemble tests");
        let width = self.scores();
        let count = (rows.len() / columns).min(ROWS_AT_ONCE);
        let rows = &rows[..count * columns];
        let Answers { scores, labels, keys, sums } = answers;
        labels.clear();
        sums.clear();
        sums.resize(count * width, Score { value: 0.0, given: false });
        match &self.outcome.output {
            Output::Classes(_) | Output::Targets { aggregate: Aggregate::Sum | Aggregate::Average, .. } => {
                self.sum(rows, columns, keys, sums);
            }
            Output::Targets { aggregate: Aggregate::Min, .. } => {
                self.best(rows, columns, keys, sums, |sum, weight| weight < sum);
            }
            Output::Targets { aggregate: Aggregate::Max, .. } => {
                self.best(rows, columns, keys, sums, |sum, weight| weight > sum);
            }
        }
        scores.resize(count * width, 0.0);
        for (sums, scores) in sums.chunks_exact_mut(width).zip(scores.chunks_exact_mut(width)) {
            labels.extend(self.outcome.row(sums, scores));
        }
    }

    /// Adds up each row's weights in the order of the trees.
    fn sum(&self, rows: &[f32], columns: usize, keys: &mut Vec<i32>, sums: &mut [Score]) {
        let width = self.scores();
        match &self.leaves {
            Leaves::One(target) => {
                let mut totals = [0.0; ROWS_AT_ONCE];
                let land = |_, row: usize, content: i32| {
                    totals[row] += f32::from_bits(content as u32);
                };
                self.walk(rows, columns, keys, land);
                for (sums, value) in sums.chunks_exact_mut(width).zip(totals) {
                    sums[*target] = Score { value, given: true };
                }
            }
            _ => self.each_weight(rows, columns, keys, |row, target, weight| {
                let sum = &mut sums[row * width + target];
                *sum = Score { value: sum.value + weight, given: true };
            }),
        }
    }

    /// Keeps the first weight of each row, and then those that are better.
    fn best(
        &self,
        rows: &[f32],
        columns: usize,
        keys: &mut Vec<i32>,
        sums: &mut [Score],
        better: impl Fn(f32, f32) -> bool,
    ) {
        let width = self.scores();
        self.each_weight(rows, columns, keys, |row, target, weight| {
            let sum = &mut sums[row * width + target];
            if !sum.given || better(sum.value, weight) {
                *sum = Score { value: weight, given: true };
            }
        });
    }

    fn each_weight(
        &self,
        rows: &[f32],
        columns: usize,
        keys: &mut Vec<i32>,
        mut add: impl FnMut(usize, usize, f32),
    ) {
        match &self.leaves {
            Leaves::One(target) => self.walk(rows, columns, keys, |_, row, content| {
                add(row, *target, f32::from_bits(content as u32));
            }),
            Leaves::OfTree(targets) => self.walk(rows, columns, keys, |tree, row, content| {
                add(row, targets[tree], f32::from_bits(content as u32));
            }),
            Leaves::Many { ranges, weights } => self.walk(rows, columns, keys, |_, row, content| {
                let weights = &weights[ranges[content as usize].clone()];
                weights.iter().for_each(|weight| add(row, weight.target, weight.value));
            }),
        }
    }

    fn walk(&self, rows: &[f32], columns: usize, keys: &mut Vec<i32>, land: impl FnMut(usize, usize, i32)) {
        match &self.form {
            Form::Flat(flat) => flat.walk(rows, columns, keys, land),
            Form::Linked(linked) => linked.walk(rows, columns, keys, land),
        }
    }
}

impl Leaves {
    fn of(forest: &Forest, scores: usize) -> Leaves {
        if scores == 1 {
            return Leaves::One(0);
        }
        let target = |tree: &Range<usize>| {
            let mut leaves =
                tree.clone().filter(|&place| forest.is_leaf(place)).map(|place| forest.leaf(place).0);
            let [weight] = leaves.next()? else { return None };
            leaves
                .all(|leaf| matches!(leaf, [other] if other.target == weight.target))
                .then_some(weight.target)
        };
        let targets: Option<Vec<usize>> = forest.trees.iter().map(target).collect();
        match targets {
            Some(targets) if targets.iter().all(|&target| target == targets[0]) => Leaves::One(targets[0]),
            Some(targets) => Leaves::OfTree(targets),
            None => {
                let ranges = forest.nodes.iter().map(|node| match node {
                    Node::Leaf { weights, .. } => weights.clone(),
                    Node::Branch { .. } => 0..0,
                });
                Leaves::Many { ranges: ranges.collect(), weights: forest.weights.clone() }
            }
        }
    }

    fn content(&self, forest: &Forest, place: usize) -> i32 {
        match self {
            Leaves::One(_) | Leaves::OfTree(_) => {
                // Of one target, a leaf without a weight counts by its threshold.
                let (weights, threshold) = forest.leaf(place);
                weights.first().map_or(threshold, |weight| weight.value).to_bits() as i32
            }
            Leaves::Many { .. } => place as i32,
        }
    }
}
