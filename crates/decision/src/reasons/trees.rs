//! Exact contributions of a tree ensemble, path-dependent as TreeSHAP defines them and LightGBM's `pred_contrib` gives
//! them: Shapley values of the game in which a feature that is left out follows the covers.
//!
//! The Shapley value is an integral (Owen's multilinear extension): with t the chance that a feature takes part, a leaf
//! is reached with the product over the features on its path of `t * hot + (1 - t) * share`, where hot is 1 if the row
//! satisfies all of the path's splits on it and share is the part of the covers that does. A feature's part is the
//! integral of that product without it, times (hot - share). The products are polynomials of t, so few points of Gauss
//! integrate them exactly, and all leaves below an edge are treated at once: two passes over the edges of each tree.
//! Nothing is subtracted that was added before, so it is stable at every depth.

use super::quadrature;
use super::sidecar::{self, Below, Missing, TreeText};

/// Features on one path, repeated ones counted once: what the largest number of points integrates exactly.
pub const PATH_FEATURES_MAX: usize = 64;

/// LightGBM takes what is this near to zero for zero.
const ZERO: f64 = 1e-35_f32 as f64;
const NONE: u32 = u32::MAX;
/// Splits on one path. Working out what came before on a path takes time by its length.
const DEPTH_MAX: usize = 512;

/// A tree ensemble with everything that does not depend on a row worked out.
#[derive(Debug)]
pub struct Trees {
    columns: usize,
    base: f64,
    below: Below,
    trees: Vec<Tree>,
    rules: Rules,
}

/// Memory that one call needs and the next uses again.
#[derive(Debug, Default)]
pub struct Workspace {
    left: Vec<bool>,
    hot: Vec<bool>,
    reach: Vec<f64>,
}

#[derive(Debug)]
struct Tree {
    points: Points,
    splits: Vec<Split>,
    /// In preorder: an edge stands after the one above it, and the whole left side before the right edge.
    edges: Vec<Edge>,
    /// For each edge and point, 1 / (t + (1 - t) * share).
    inverse: Vec<f64>,
}

#[derive(Debug)]
struct Split {
    feature: u32,
    threshold: f64,
    missing: Missing,
    /// In rising order; empty: the split compares.
    categories: Box<[u32]>,
}

/// The way from a split to one of its children. Edge 0 leads to the root and belongs to no split.
#[derive(Debug)]
struct Edge {
    above: u32,
    split: u32,
    feature: u32,
    /// The nearest edge above it whose split is on the same feature.
    previous: u32,
    left: bool,
    /// The child's cover in its split's.
    step: f64,
    /// The product of the steps on this feature down to here.
    share: f64,
    /// Of a leaf; else 0.
    value: f64,
    leaf: bool,
}

/// A child that is still to be walked to.
struct Open {
    split: usize,
    left: bool,
    above: u32,
    depth: usize,
    /// Distinct ones on the path down to its split's own edge.
    features: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Points {
    Four,
    Eight,
    Sixteen,
    ThirtyTwo,
}

impl Points {
    /// A path of d features needs a polynomial of degree d - 1.
    fn for_path(features: usize) -> Option<Points> {
        match features {
            0..=8 => Some(Points::Four),
            9..=16 => Some(Points::Eight),
            17..=32 => Some(Points::Sixteen),
            33..=PATH_FEATURES_MAX => Some(Points::ThirtyTwo),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Rule<const N: usize> {
    t: [f64; N],
    /// 1 - t.
    rest: [f64; N],
    weight: [f64; N],
    /// weight / (1 - t).
    cold: [f64; N],
}

impl<const N: usize> Rule<N> {
    fn new() -> Rule<N> {
        let points = quadrature::points::<N>();
        let t = points.map(|(t, _)| t);
        let weight = points.map(|(_, weight)| weight);
        let rest = t.map(|t| 1.0 - t);
        Rule { t, rest, weight, cold: std::array::from_fn(|k| weight[k] / rest[k]) }
    }

    fn inverse(&self, share: f64) -> [f64; N] {
        std::array::from_fn(|k| 1.0 / (self.t[k] + self.rest[k] * share))
    }
}

#[derive(Debug)]
struct Rules(Rule<4>, Rule<8>, Rule<16>, Rule<32>);

impl Trees {
    /// Reads and prepares a sidecar. The error says what is allowed, and what stands there instead.
    pub fn read(bytes: &[u8]) -> Result<Trees, String> {
        let sidecar = sidecar::read(bytes)?;
        let rules = Rules(Rule::new(), Rule::new(), Rule::new(), Rule::new());
        let mut trees = Vec::with_capacity(sidecar.trees.len());
        let mut base = sidecar.base;
        for (place, text) in sidecar.trees.into_iter().enumerate() {
            let (tree, mean) =
                Tree::build(text, &rules).map_err(|text| format!("trees[{place}] with {text}"))?;
            base += mean;
            if !tree.splits.is_empty() {
                trees.push(tree);
            }
        }
        Ok(Trees { columns: sidecar.columns, base, below: sidecar.below, trees, rules })
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The raw margin expected over the training data: with all contributions of a row, the row's raw margin.
    pub fn base(&self) -> f64 {
        self.base
    }

    /// Adds each column's contribution to `out`. `row` is as the model gets it: f32 where its tensor is FP32. Both are
    /// as long as `columns()` says.
    pub fn contributions(&self, row: &[f64], work: &mut Workspace, out: &mut [f64]) {
        assert!(row.len() == self.columns && out.len() == self.columns, "rows have the sidecar's columns");
        for tree in &self.trees {
            work.left.clear();
            let splits = tree.splits.iter();
            work.left.extend(splits.map(|split| split.goes_left(row[split.feature as usize], self.below)));
            match tree.points {
                Points::Four => tree.contributions(&self.rules.0, work, out),
                Points::Eight => tree.contributions(&self.rules.1, work, out),
                Points::Sixteen => tree.contributions(&self.rules.2, work, out),
                Points::ThirtyTwo => tree.contributions(&self.rules.3, work, out),
            }
        }
    }
}

impl Split {
    fn goes_left(&self, value: f64, below: Below) -> bool {
        if !self.categories.is_empty() {
            // Whole numbers towards zero, as LightGBM casts; what is too large saturates and is in no list.
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

impl Tree {
    /// The tree with its edges in order, and the mean of its leaves by cover.
    fn build(mut text: TreeText, rules: &Rules) -> Result<(Tree, f64), String> {
        let covers = split_covers(&text);
        let (edges, path) = Tree::edges(&text, &covers)?;
        let Some(points) = Points::for_path(path) else {
            return Err(format!("at most {PATH_FEATURES_MAX} features on one path; one has {path}"));
        };
        let total: f64 = covers.first().copied().unwrap_or(text.cover[0]);
        let mean = text.value.iter().zip(&text.cover).map(|(value, cover)| value * (cover / total)).sum();
        let inverse = edges.iter().flat_map(|edge| rules.inverse(points, edge.share)).collect();
        let splits = text.feature.iter().enumerate().map(|(place, feature)| Split {
            feature: *feature,
            threshold: text.threshold[place],
            missing: text.missing[place],
            categories: text.categories.remove(&(place as u32)).unwrap_or_default().into_boxed_slice(),
        });
        Ok((Tree { points, splits: splits.collect(), edges, inverse }, mean))
    }

    /// The edges in preorder, and the most distinct features on a path. Walks with a list of its own: a chain of splits
    /// as deep as the file allows must not exhaust the stack.
    fn edges(text: &TreeText, covers: &[f64]) -> Result<(Vec<Edge>, usize), String> {
        let root = Edge {
            above: NONE,
            split: NONE,
            feature: 0,
            previous: NONE,
            left: false,
            step: 1.0,
            share: 1.0,
            value: text.value[0],
            leaf: text.feature.is_empty(),
        };
        let mut edges = vec![root];
        let mut features_max = 0;
        let mut open = Vec::new();
        if !text.feature.is_empty() {
            open.extend([false, true].map(|left| Open { split: 0, left, above: 0, depth: 1, features: 0 }));
        }
        while let Some(Open { split, left, above, depth, features }) = open.pop() {
            if depth > DEPTH_MAX {
                return Err(format!("at most {DEPTH_MAX} splits on one path"));
            }
            let child = if left { text.left[split] } else { text.right[split] };
            let leaf = (-1 - i64::from(child)).try_into().ok();
            let cover = leaf.map_or_else(|| covers[child as usize], |leaf: usize| text.cover[leaf]);
            let feature = text.feature[split];
            let previous = previous(&edges, above, feature);
            let step = cover / covers[split];
            let earlier = edges.get(previous as usize).map_or(1.0, |edge: &Edge| edge.share);
            let value = leaf.map_or(0.0, |leaf| text.value[leaf]);
            let here = edges.len() as u32;
            let leaf = leaf.is_some();
            let share = earlier * step;
            edges.push(Edge {
                above,
                split: split as u32,
                feature,
                previous,
                left,
                step,
                share,
                value,
                leaf,
            });
            let features = features + usize::from(previous == NONE);
            features_max = features_max.max(features);
            if !leaf {
                let (split, above, depth) = (child as usize, here, depth + 1);
                open.extend([false, true].map(|left| Open { split, left, above, depth, features }));
            }
        }
        Ok((edges, features_max))
    }

    fn contributions<const N: usize>(&self, rule: &Rule<N>, work: &mut Workspace, out: &mut [f64]) {
        let (inverse, _) = self.inverse.as_chunks::<N>();
        work.hot.clear();
        work.hot.resize(self.edges.len(), true);
        work.reach.resize(work.reach.len().max(self.edges.len() * N), 0.0);
        let (reach, _) = work.reach.as_chunks_mut::<N>();
        reach[0] = [1.0; N];
        // Down: how far each edge is reached at each point, and at a leaf that times its value.
        for (here, edge) in self.edges.iter().enumerate().skip(1) {
            let previous = edge.previous as usize;
            let fresh = edge.previous == NONE;
            let open = fresh || work.hot[previous];
            let hot = open && work.left[edge.split as usize] == edge.left;
            work.hot[here] = hot;
            let above = reach[edge.above as usize];
            let scale = if edge.leaf { edge.value } else { 1.0 };
            reach[here] = match (open, hot) {
                (false, _) => above.map(|reach| reach * (edge.step * scale)),
                (true, hot) => {
                    let (share, chance) = (edge.share * scale, if hot { scale } else { 0.0 });
                    let now: [f64; N] =
                        std::array::from_fn(|k| above[k] * (rule.t[k] * chance + rule.rest[k] * share));
                    if fresh { now } else { std::array::from_fn(|k| now[k] * inverse[previous][k]) }
                }
            };
        }
        // Up: the leaves below each edge added together, and the edge's feature gets its part of them.
        for (here, edge) in self.edges.iter().enumerate().skip(1).rev() {
            let below = reach[here];
            let above = &mut reach[edge.above as usize];
            // Backwards, the right side is complete before the left one begins.
            *above = if edge.left { std::array::from_fn(|k| above[k] + below[k]) } else { below };
            let previous = edge.previous as usize;
            let fresh = edge.previous == NONE;
            if !fresh && !work.hot[previous] {
                continue; // the edge above has counted these leaves already, and for the same
            }
            let mut part = if work.hot[here] {
                (1.0 - edge.share) * integral(&rule.weight, &below, &inverse[here])
            } else {
                -below.iter().zip(&rule.cold).map(|(reach, weight)| reach * weight).sum::<f64>()
            };
            if !fresh {
                let share = self.edges[previous].share;
                part -= (1.0 - share) * integral(&rule.weight, &below, &inverse[previous]);
            }
            out[edge.feature as usize] += part;
        }
    }
}

fn integral<const N: usize>(weight: &[f64; N], reach: &[f64; N], inverse: &[f64; N]) -> f64 {
    let mut parts = [0.0; N];
    for k in 0..N {
        parts[k] = weight[k] * reach[k] * inverse[k];
    }
    parts.iter().sum()
}

impl Rules {
    fn inverse(&self, points: Points, share: f64) -> Vec<f64> {
        match points {
            Points::Four => self.0.inverse(share).to_vec(),
            Points::Eight => self.1.inverse(share).to_vec(),
            Points::Sixteen => self.2.inverse(share).to_vec(),
            Points::ThirtyTwo => self.3.inverse(share).to_vec(),
        }
    }
}

fn previous(edges: &[Edge], above: u32, feature: u32) -> u32 {
    let mut at = above;
    while at != 0 {
        let edge = &edges[at as usize];
        if edge.feature == feature {
            return at;
        }
        at = edge.above;
    }
    NONE
}

/// Children stand after their parents, so from the back every cover is known when it is asked for.
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
