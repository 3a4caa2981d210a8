//! From the sums of a row to its answer: base values, label, transform. ONNX Runtime's rules, its odd ones too.

use crate::attributes::{Aggregate, Labels, Output, Transform};
use crate::forest::Forest;
use crate::transform::{Score, logistic, probit, write};
use crate::{Attributes, Unsupported};

/// How the sums of a row become its scores and its label.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) output: Output,
    transform: Transform,
    base_values: Vec<f32>,
    /// As a float, because sums are divided by it.
    trees: f32,
    /// Two classes and weights of one of them only.
    one_sided: bool,
    /// No weight is negative: then sums are probabilities.
    all_positive: bool,
}

impl Outcome {
    pub(crate) fn of(attributes: Attributes, forest: &Forest) -> Result<Outcome, Unsupported> {
        let Attributes { output, leaves, base_values, transform, .. } = attributes;
        let scores = output.scores();
        let mut targets = leaves.target_ids.clone();
        targets.sort_unstable();
        targets.dedup();
        let classes = matches!(output, Output::Classes(_));
        let one_sided = classes && scores == 2 && targets.len() == 1;
        // Not `>= 0.0`: NaN is not negative for ONNX Runtime.
        let all_positive = !leaves.weights.iter().any(|&weight| weight < 0.0);
        let always = |target| forest.always_gives(target);
        if classes && scores == 2 && base_values.len() < 2 && !always(1) {
            // ONNX Runtime then leaves the second score as its memory happens to be.
            if transform == Transform::Probit {
                return Err(Unsupported::new("PROBIT with two classes and weights of one"));
            }
            if base_values.len() == 1 && !one_sided {
                return Err(Unsupported::new("one base value for two classes that both have weights"));
            }
        }
        if classes && scores > 2 && base_values.is_empty() && !(0..scores).any(always) {
            return Err(Unsupported::new("a row may reach no weight, and then has no label"));
        }
        let trees = forest.trees.len() as f32;
        Ok(Outcome { output, transform, base_values, trees, one_sided, all_positive })
    }

    /// Writes a row's scores; returns the number of its label, or for texts its place.
    pub(crate) fn row(&self, scores: &mut [Score], out: &mut [f32]) -> Option<i64> {
        match &self.output {
            Output::Targets { aggregate, .. } => {
                self.targets(*aggregate, scores, out);
                None
            }
            Output::Classes(labels) if scores.len() == 2 => Some(self.two_classes(labels, scores, out)),
            Output::Classes(labels) => Some(self.classes(labels, scores, out)),
        }
    }

    fn targets(&self, aggregate: Aggregate, scores: &mut [Score], out: &mut [f32]) {
        let base = |target: usize| self.base_values.get(target).copied();
        if let [score] = scores {
            let sum = if aggregate == Aggregate::Average { score.value / self.trees } else { score.value };
            let sum = sum + base(0).unwrap_or(0.0);
            // Of one target, ONNX Runtime transforms by PROBIT alone.
            out[0] = if self.transform == Transform::Probit { probit(sum) } else { sum };
            return;
        }
        for (target, score) in scores.iter_mut().enumerate() {
            score.value = match (aggregate, base(target)) {
                (Aggregate::Sum, Some(base)) => score.value + base,
                (Aggregate::Sum, None) => score.value,
                (Aggregate::Average, Some(base)) => score.value / self.trees + base,
                (Aggregate::Average, None) => score.value / self.trees,
                (Aggregate::Min | Aggregate::Max, base) => base.unwrap_or(0.0) + score.get(),
            };
        }
        write(self.transform, scores.iter().copied(), out);
    }

    fn classes(&self, labels: &Labels, scores: &mut [Score], out: &mut [f32]) -> i64 {
        for (score, base) in scores.iter_mut().zip(&self.base_values) {
            score.value = if score.given { score.value + base } else { *base };
            score.given = true;
        }
        let mut best: Option<(usize, f32)> = None;
        for (class, score) in scores.iter().enumerate().filter(|(_, score)| score.given) {
            if best.is_none_or(|(_, value)| score.value > value) {
                best = Some((class, score.value));
            }
        }
        write(self.transform, scores.iter().copied(), out);
        best.map_or(0, |(class, _)| label(labels, class))
    }

    fn two_classes(&self, labels: &Labels, scores: &mut [Score], out: &mut [f32]) -> i64 {
        let (mut first, mut second) = (scores[0], scores[1]);
        let mut alone = !second.given;
        match self.base_values[..] {
            [_, base] if second.given => {
                // The first sum, not the second, and the first base value has no part in it.
                second.value = base + first.value;
                first.value = -second.value;
            }
            [base, other] => {
                second.value += other;
                first.value += base;
                alone = false;
            }
            [base] => first.value += base,
            _ => {}
        }
        let weight = if second.given { second.value } else { first.get() };
        let threshold = if self.one_sided && self.all_positive { 0.5 } else { 0.0 };
        let positive = weight > threshold;
        if !alone {
            write(self.transform, [first, second].into_iter(), out);
        } else if self.transform == Transform::Logistic {
            (out[0], out[1]) = (logistic(first.negated()), logistic(first.get()));
        } else if self.one_sided && self.all_positive {
            (out[0], out[1]) = (1.0 - first.get(), first.get());
        } else {
            (out[0], out[1]) = (first.negated(), first.get());
        }
        // With weights of both classes the label is 0 or 1, whatever the labels are.
        if self.one_sided { label(labels, usize::from(positive)) } else { i64::from(positive) }
    }
}

fn label(labels: &Labels, class: usize) -> i64 {
    match labels {
        Labels::Numbers(labels) => labels[class],
        Labels::Texts(_) => class as i64,
    }
}
