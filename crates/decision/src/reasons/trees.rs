//! Exact contributions of a tree ensemble: path-dependent TreeSHAP.
//!
//! They equal LightGBM's `pred_contrib`: Shapley values of the game in which an absent feature follows the
//! covers.
//!
//! The Shapley value is an integral (Owen's multilinear extension). With t the probability that a feature
//! takes part, a leaf is reached with the product over its path's features of `t * hot + (1 - t) * share`,
//! where hot is 1 if the row satisfies all of the path's splits on the feature and share is the fraction of
//! the covers that does. A feature's contribution is the integral of that product without it, times (hot -
//! share). The products are polynomials of t, so a few Gauss points integrate them exactly, and all leaves
//! below an edge are handled at once: two passes over the edges of each tree. No previous sum is subtracted,
//! so it is stable at every depth.

use super::quadrature;
use super::sidecar::{self, Below, Missing, TreeText};
use std::collections::VecDeque;

/// Maximum distinct features on one path: the most that the largest rule integrates exactly.
const PATH_FEATURES_MAX: usize = 64;

/// LightGBM treats values this close to zero as zero.
const ZERO: f64 = 1e-35_f32 as f64;
/// Maximum splits on one path. Finding earlier splits of a feature takes time by its length.
const DEPTH_MAX: usize = 512;

/// A tree ensemble with everything precomputed that does not depend on a row.
#[derive(Debug)]
pub struct Trees {
    columns: usize,
    base: f64,
    below: Below,
    /// By the points that their longest path needs.
    two: Group<2>,
    four: Group<4>,
    six: Group<6>,
    eight: Group<8>,
    sixteen: Group<16>,
    thirty_two: Group<32>,
}

/// Reusable memory of one call.
#[derive(Debug, Default)]
pub struct Workspace {
    left: Vec<bool>,
    hot: Vec<bool>,
    reach: Vec<f64>,
    parts: Vec<f64>,
}

#[derive(Debug)]
struct Group<const N: usize> {
    rule: Rule<N>,
    trees: Vec<Tree<N>>,
}

#[derive(Debug)]
struct Rule<const N: usize> {
    t: [f64; N],
    /// 1 - t.
    rest: [f64; N],
    weight: [f64; N],
}

#[derive(Debug)]
struct Tree<const N: usize> {
    splits: Vec<Split>,
    /// Level by level, left before right. Neighbours then do not depend on each other: 25 % faster.
    edges: Vec<Edge>,
    /// For each edge, 1 / (t + (1 - t) * share); last, 1 / (1 - t).
    inverse: Vec<[f64; N]>,
}

#[derive(Debug)]
struct Split {
    feature: u32,
    threshold: f64,
    missing: Missing,
    /// In ascending order; empty: the split compares.
    categories: Box<[u32]>,
}

/// The edge from a split to a child. Edge 0 leads to the root and has no split: always hot, share 1.
#[derive(Debug)]
struct Edge {
    above: u32,
    split: u32,
    feature: u32,
    /// The nearest ancestor edge on the same feature; edge 0 if there is none.
    previous: u32,
    left: bool,
    /// The product of this feature's cover shares down to here.
    share: f64,
    /// 1 - share.
    gain: f64,
    /// The leaf's value; 1 for other edges.
    value: f64,
    share_value: f64,
    /// The value times the share of this one step.
    step_value: f64,
}

impl Trees {
    /// Parses and prepares a sidecar. The error states what is allowed and what was found.
    pub fn read(bytes: &[u8]) -> Result<Trees, String> {
        let sidecar = sidecar::read(bytes)?;
        let mut trees = Trees {
            columns: sidecar.columns,
            base: sidecar.base,
            below: sidecar.below,
            two: Group::new(),
            four: Group::new(),
            six: Group::new(),
            eight: Group::new(),
            sixteen: Group::new(),
            thirty_two: Group::new(),
        };
        for (place, text) in sidecar.trees.into_iter().enumerate() {
            trees.add(text).map_err(|text| format!("trees[{place}] with {text}"))?;
        }
        Ok(trees)
    }

    fn add(&mut self, text: TreeText) -> Result<(), String> {
        let covers = split_covers(&text);
        let total = covers.first().copied().unwrap_or(text.cover[0]);
        let leaves = text.value.iter().zip(&text.cover);
        self.base += leaves.map(|(value, cover)| value * (cover / total)).sum::<f64>();
        let (edges, features) = edges(&text, &covers)?;
        // A path's polynomial has a degree of one less than its features: n points suffice for 2n of them.
        match features {
            0 => {} // a tree with one leaf is only base
            1..=4 => self.two.add(text, edges),
            5..=8 => self.four.add(text, edges),
            9..=12 => self.six.add(text, edges),
            13..=16 => self.eight.add(text, edges),
            17..=32 => self.sixteen.add(text, edges),
            33..=PATH_FEATURES_MAX => self.thirty_two.add(text, edges),
            _ => return Err(format!("at most {PATH_FEATURES_MAX} features on one path; one has {features}")),
        }
        Ok(())
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The raw margin expected over the training data; adding a row's contributions gives its raw margin.
    pub fn base(&self) -> f64 {
        self.base
    }

    /// Adds each column's contribution to `out`.
    ///
    /// `row` is as the model receives it: f32 if its tensor is FP32. Both have `columns()` elements.
    pub fn contributions(&self, row: &[f64], work: &mut Workspace, out: &mut [f64]) {
        assert!(row.len() == self.columns && out.len() == self.columns, "rows have the sidecar's columns");
        self.two.contributions(self.below, row, work, out);
        self.four.contributions(self.below, row, work, out);
        self.six.contributions(self.below, row, work, out);
        self.eight.contributions(self.below, row, work, out);
        self.sixteen.contributions(self.below, row, work, out);
        self.thirty_two.contributions(self.below, row, work, out);
    }
}

impl Split {
    fn goes_left(&self, value: f64, below: Below) -> bool {
        if !self.categories.is_empty() {
            // Truncated as LightGBM does; large values saturate and are in no list.
            let category = u32::try_from(value as i64);
            return !value.is_nan()
                && category.is_ok_and(|value| self.categories.binary_search(&value).is_ok());
        }
        let zero = value.is_nan() || value.abs() <= ZERO;
        match self.missing {
            Missing::Left if value.is_nan() => true,
            Missing::Right if value.is_nan() => false,
            Missing::ZeroLeft if zero => true,
            Missing::ZeroRight if zero => false,
            _ => {
                let value = if value.is_nan() { 0.0 } else { value };
                match below {
                    Below::OrEqual => value <= self.threshold,
                    Below::Only => value < self.threshold,
                }
            }
        }
    }
}

impl<const N: usize> Group<N> {
    fn new() -> Group<N> {
        let points = quadrature::points::<N>();
        let t = points.map(|(t, _)| t);
        let rest = t.map(|t| 1.0 - t);
        let rule = Rule { t, rest, weight: points.map(|(_, weight)| weight) };
        Group { rule, trees: Vec::new() }
    }

    fn add(&mut self, mut text: TreeText, edges: Vec<Edge>) {
        let Rule { t, rest, .. } = &self.rule;
        let inverse = |edge: &Edge| std::array::from_fn(|k| 1.0 / (t[k] + rest[k] * edge.share));
        let inverse = edges.iter().map(inverse).chain([rest.map(f64::recip)]).collect();
        let splits = text.feature.iter().enumerate().map(|(place, feature)| Split {
            feature: *feature,
            threshold: text.threshold[place],
            missing: text.missing[place],
            categories: text.categories.remove(&(place as u32)).unwrap_or_default().into_boxed_slice(),
        });
        self.trees.push(Tree { splits: splits.collect(), edges, inverse });
    }

    /// Sums the points' values once at the end, not for each edge.
    fn contributions(&self, below: Below, row: &[f64], work: &mut Workspace, out: &mut [f64]) {
        if self.trees.is_empty() {
            return;
        }
        work.parts.clear();
        work.parts.resize(row.len() * N, 0.0);
        for tree in &self.trees {
            let side = |split: &Split| split.goes_left(row[split.feature as usize], below);
            work.left.clear();
            work.left.extend(tree.splits.iter().map(side));
            tree.descend(&self.rule, work);
            tree.ascend(work);
        }
        let (parts, _) = work.parts.as_chunks::<N>();
        for (part, out) in parts.iter().zip(out) {
            *out += part.iter().zip(&self.rule.weight).map(|(part, weight)| part * weight).sum::<f64>();
        }
    }
}

// Hot edges are as good as random, and a mispredicted branch costs more than an edge's arithmetic: both
// passes select values without branching.
impl<const N: usize> Tree<N> {
    /// Computes how far each edge is reached at each point; at a leaf, times its value.
    fn descend(&self, rule: &Rule<N>, work: &mut Workspace) {
        let cold = self.inverse.len() - 1;
        work.hot.resize(work.hot.len().max(self.edges.len()), true);
        work.reach.resize(work.reach.len().max(self.edges.len() * N), 0.0);
        let (reach, _) = work.reach.as_chunks_mut::<N>();
        reach[0] = [1.0; N];
        work.hot[0] = true;
        for (here, edge) in self.edges.iter().enumerate().skip(1) {
            let previous = edge.previous as usize;
            let open = work.hot[previous];
            let hot = open & (work.left[edge.split as usize] == edge.left);
            work.hot[here] = hot;
            let taking_part = if hot { edge.value } else { 0.0 };
            let left_out = if open { edge.share_value } else { edge.step_value };
            let inverse = &self.inverse[if open { previous } else { cold }];
            let above = reach[edge.above as usize];
            reach[here] = std::array::from_fn(|k| {
                above[k] * (rule.t[k] * taking_part + rule.rest[k] * left_out) * inverse[k]
            });
        }
    }

    /// Sums the leaves below each edge, and adds the edge's part to its feature.
    fn ascend(&self, work: &mut Workspace) {
        let cold = self.inverse.len() - 1;
        let (reach, _) = work.reach.as_chunks_mut::<N>();
        let (parts, _) = work.parts.as_chunks_mut::<N>();
        for (here, edge) in self.edges.iter().enumerate().skip(1).rev() {
            let below = reach[here];
            // In reverse, the right edge precedes the left one and overwrites the old sum.
            let kept = if edge.left { 1.0 } else { 0.0 };
            let above = &mut reach[edge.above as usize];
            *above = std::array::from_fn(|k| above[k] * kept + below[k]);
            let previous = edge.previous as usize;
            // Below an edge that is cold for this feature, that edge has already counted these leaves.
            let (open, hot) = (work.hot[previous], work.hot[here]);
            let gain = if hot { edge.gain } else { -1.0 };
            let gain = if open { gain } else { 0.0 };
            let inverse = &self.inverse[if hot { here } else { cold }];
            let earlier_gain = if open { self.edges[previous].gain } else { 0.0 };
            let earlier = &self.inverse[previous];
            let part = &mut parts[edge.feature as usize];
            *part =
                std::array::from_fn(|k| part[k] + below[k] * (gain * inverse[k] - earlier_gain * earlier[k]));
        }
    }
}

/// A child that is still to be visited.
struct Open {
    split: usize,
    left: bool,
    above: u32,
    depth: usize,
    /// Distinct features on the path to its split.
    features: usize,
}

/// The edges level by level, and the most distinct features on a path.
fn edges(text: &TreeText, covers: &[f64]) -> Result<(Vec<Edge>, usize), String> {
    let mut edges = vec![ROOT];
    let mut features_max = 0;
    let mut open = VecDeque::new();
    if !text.feature.is_empty() {
        open.extend([true, false].map(|left| Open { split: 0, left, above: 0, depth: 1, features: 0 }));
    }
    while let Some(Open { split, left, above, depth, features }) = open.pop_front() {
        if depth > DEPTH_MAX {
            return Err(format!("at most {DEPTH_MAX} splits on one path"));
        }
        let child = if left { text.left[split] } else { text.right[split] };
        let inner = usize::try_from(child).ok();
        let leaf = (-1 - i64::from(child)) as usize;
        let (cover, value) =
            inner.map_or_else(|| (text.cover[leaf], text.value[leaf]), |split| (covers[split], 1.0));
        let feature = text.feature[split];
        let previous = previous(&edges, above, feature);
        let step = cover / covers[split];
        let share = edges[previous as usize].share * step;
        let features = features + usize::from(previous == 0);
        features_max = features_max.max(features);
        if let Some(split) = inner {
            let (above, depth) = (edges.len() as u32, depth + 1);
            open.extend([true, false].map(|left| Open { split, left, above, depth, features }));
        }
        edges.push(Edge {
            above,
            split: split as u32,
            feature,
            previous,
            left,
            share,
            gain: 1.0 - share,
            value,
            share_value: share * value,
            step_value: step * value,
        });
    }
    Ok((edges, features_max))
}

const ROOT: Edge = Edge {
    above: 0,
    split: 0,
    feature: 0,
    previous: 0,
    left: false,
    share: 1.0,
    gain: 0.0,
    value: 1.0,
    share_value: 1.0,
    step_value: 1.0,
};

fn previous(edges: &[Edge], above: u32, feature: u32) -> u32 {
    let mut at = above;
    while at != 0 && edges[at as usize].feature != feature {
        at = edges[at as usize].above;
    }
    at
}

/// Children come after their parents, so in reverse every cover is known when needed.
fn split_covers(text: &TreeText) -> Vec<f64> {
    let mut covers = vec![0.0; text.feature.len()];
    for split in (0..covers.len()).rev() {
        let cover = |child: i32| match usize::try_from(child) {
            Ok(split) => covers[split],
            Err(_) => text.cover[(-1 - child) as usize],
        };
        covers[split] = cover(text.left[split]) + cover(text.right[split]);
    }
    covers
}
