//! The attributes, checked and linked: nodes that name their children, trees that name their root.
//!
//! Whatever ONNX Runtime would refuse, or answer by an accident of its memory, is unsupported here.

use crate::attributes::{Attributes, Mode, NodeAttributes, Output};
use crate::branch::Test;
use crate::{Labels, Unsupported};
use std::collections::HashMap;
use std::ops::Range;

/// Maximum nodes of an ensemble, such as 2,000 trees of 255 leaves: building one takes some 250 bytes a node.
const NODES_MAX: usize = 1 << 20;

/// Maximum classes or targets.
const SCORES_MAX: usize = 1024;

/// An ensemble whose every path ends in a leaf.
#[derive(Debug)]
pub(crate) struct Forest {
    pub(crate) nodes: Vec<Node>,
    /// The nodes of each tree; the first is its root.
    pub(crate) trees: Vec<Range<usize>>,
    /// What leaves add, by their range of it.
    pub(crate) weights: Vec<Weight>,
    /// A node is the child of two: then the trees are graphs.
    pub(crate) shared: bool,
    /// The least columns of a row.
    pub(crate) columns_min: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Branch { feature: usize, threshold: f32, test: Test, passed: usize, failed: usize },
    Leaf { weights: Range<usize>, threshold: f32 },
}

/// A weight of a leaf for one class or target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weight {
    pub(crate) target: usize,
    pub(crate) value: f32,
}

impl Output {
    /// Scores of a row.
    pub(crate) fn scores(&self) -> usize {
        match self {
            Output::Classes(labels) => labels.count(),
            Output::Targets { count, .. } => *count,
        }
    }
}

impl Forest {
    pub(crate) fn of(attributes: &Attributes) -> Result<Forest, Unsupported> {
        let scores = attributes.output.scores();
        check_lengths(attributes)?;
        check_base_values(attributes, scores)?;
        let nodes = &attributes.nodes;
        let trees = trees(&nodes.tree_ids)?;
        let ids = nodes.tree_ids.iter().copied().zip(nodes.node_ids.iter().copied());
        let places: HashMap<(i64, i64), usize> = ids.zip(0..).collect();
        if places.len() < nodes.node_ids.len() {
            return Err(Unsupported::new("two nodes of a tree have the same number"));
        }
        let (weights, of_leaf) = weights(attributes, &places, scores)?;
        let mut linked = Vec::with_capacity(nodes.node_ids.len());
        for (place, of_leaf) in of_leaf.into_iter().enumerate() {
            linked.push(link(nodes, place, of_leaf, &places)?);
        }
        let features = linked.iter().filter_map(|node| match node {
            Node::Branch { feature, .. } => Some(feature + 1),
            Node::Leaf { .. } => None,
        });
        let columns_min = features.max().unwrap_or(1);
        let mut forest = Forest { trees, weights, shared: false, columns_min, nodes: linked };
        forest.shared = forest.has_shared_nodes()?;
        Ok(forest)
    }

    /// The weights of a leaf, with the threshold that ONNX Runtime uses where a leaf has none.
    pub(crate) fn leaf(&self, place: usize) -> (&[Weight], f32) {
        match &self.nodes[place] {
            Node::Leaf { weights, threshold } => (&self.weights[weights.clone()], *threshold),
            Node::Branch { threshold, .. } => (&[], *threshold),
        }
    }

    pub(crate) fn is_leaf(&self, place: usize) -> bool {
        matches!(self.nodes[place], Node::Leaf { .. })
    }

    /// Whether every row gets a weight for this class or target.
    pub(crate) fn always_gives(&self, target: usize) -> bool {
        let gives = |place: usize| self.leaf(place).0.iter().any(|weight| weight.target == target);
        let whole = |tree: &Range<usize>| tree.clone().filter(|&place| self.is_leaf(place)).all(gives);
        self.trees.iter().any(whole)
    }

    /// Whether a node has two parents. A path that returns to itself is an error.
    fn has_shared_nodes(&self) -> Result<bool, Unsupported> {
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            Not,
            Above,
            Done,
        }
        let (mut seen, mut shared) = (vec![Seen::Not; self.nodes.len()], false);
        for tree in &self.trees {
            // Each is entered once and left once: `true` leaves it.
            let mut path = vec![(tree.start, false)];
            while let Some((place, leave)) = path.pop() {
                if leave {
                    seen[place] = Seen::Done;
                    continue;
                }
                match seen[place] {
                    Seen::Above => return Err(Unsupported::new("a path of a tree returns to itself")),
                    Seen::Done => shared = true,
                    Seen::Not => {
                        seen[place] = Seen::Above;
                        path.push((place, true));
                        if let Node::Branch { passed, failed, .. } = self.nodes[place] {
                            path.extend([(passed, false), (failed, false)]);
                        }
                    }
                }
            }
        }
        Ok(shared)
    }
}

fn check_lengths(attributes: &Attributes) -> Result<(), Unsupported> {
    let NodeAttributes { tree_ids, node_ids, feature_ids, modes, values, true_ids, false_ids, .. } =
        &attributes.nodes;
    let count = node_ids.len();
    let others =
        [tree_ids.len(), feature_ids.len(), modes.len(), values.len(), true_ids.len(), false_ids.len()];
    if others.iter().any(|&other| other != count) {
        return Err(Unsupported::new("the attributes of its nodes differ in length"));
    }
    let leaves = &attributes.leaves;
    let others = [leaves.node_ids.len(), leaves.target_ids.len(), leaves.weights.len()];
    if others.iter().any(|&other| other != leaves.tree_ids.len()) {
        return Err(Unsupported::new("the attributes of its leaves differ in length"));
    }
    match count.max(leaves.weights.len()) {
        0 => Err(Unsupported::new("it has no nodes")),
        large if large > NODES_MAX => {
            Err(Unsupported::new(format!("it has {large} nodes or weights; {NODES_MAX} are supported")))
        }
        _ => Ok(()),
    }
}

fn check_base_values(attributes: &Attributes, scores: usize) -> Result<(), Unsupported> {
    let base_values = attributes.base_values.len();
    let classes = match &attributes.output {
        Output::Classes(labels) => Some(labels),
        Output::Targets { .. } => None,
    };
    if scores == 0 || scores > SCORES_MAX || (scores == 1 && classes.is_some()) {
        return Err(Unsupported::new(format!("it has {scores} classes or targets")));
    }
    let fits = base_values == 0 || base_values == scores || (classes.is_some() && scores == 2);
    if !fits || base_values > scores {
        return Err(Unsupported::new(format!("it has {base_values} base values for {scores} scores")));
    }
    if let Some(Labels::Numbers(labels)) = classes
        && labels.len() != scores
    {
        return Err(Unsupported::new("its labels differ in number from its classes"));
    }
    Ok(())
}

/// The nodes of each tree, which follow each other: the first one is its root.
fn trees(tree_ids: &[i64]) -> Result<Vec<Range<usize>>, Unsupported> {
    let mut trees: Vec<Range<usize>> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for tree in tree_ids.chunk_by(|one, next| one == next) {
        let start = trees.last().map_or(0, |last| last.end);
        trees.push(start..start + tree.len());
        if !known.insert(tree[0]) {
            return Err(Unsupported::new(format!("the nodes of tree {} are not in one place", tree[0])));
        }
    }
    Ok(trees)
}

/// All weights, and the range of each node.
///
/// ONNX Runtime sorts them by tree and node, and keeps the file's order within a leaf. It ignores weights of
/// nodes that are no leaves, which old converters write.
fn weights(
    attributes: &Attributes,
    places: &HashMap<(i64, i64), usize>,
    scores: usize,
) -> Result<(Vec<Weight>, Vec<Range<usize>>), Unsupported> {
    let leaves = &attributes.leaves;
    let mut found = Vec::with_capacity(leaves.weights.len());
    for (number, id) in leaves.tree_ids.iter().copied().zip(leaves.node_ids.iter().copied()).enumerate() {
        let &place = places.get(&id).ok_or_else(|| Unsupported::new("a weight belongs to no node"))?;
        let target = usize::try_from(leaves.target_ids[number]).ok().filter(|&target| target < scores);
        let target = target.ok_or_else(|| Unsupported::new("a weight belongs to no class or target"))?;
        if attributes.nodes.modes[place] == Mode::Leaf {
            found.push((place, Weight { target, value: leaves.weights[number] }));
        }
    }
    found.sort_by_key(|&(place, _)| place);
    let mut ranges = vec![0..0; attributes.nodes.node_ids.len()];
    let mut start = 0;
    for of_leaf in found.chunk_by(|one, next| one.0 == next.0) {
        ranges[of_leaf[0].0] = start..start + of_leaf.len();
        start += of_leaf.len();
    }
    Ok((found.into_iter().map(|(_, weight)| weight).collect(), ranges))
}

fn link(
    nodes: &NodeAttributes,
    place: usize,
    weights: Range<usize>,
    places: &HashMap<(i64, i64), usize>,
) -> Result<Node, Unsupported> {
    let threshold = nodes.values[place];
    let missing_true = nodes.missing_true.get(place) == Some(&1);
    let Some(test) = Test::of(nodes.modes[place], threshold, missing_true) else {
        return Ok(Node::Leaf { weights, threshold });
    };
    let child = |id| {
        let tree = nodes.tree_ids[place];
        let missing = || Unsupported::new(format!("node {id} of tree {tree} does not exist"));
        places.get(&(tree, id)).copied().ok_or_else(missing)
    };
    let (yes, no) = (child(nodes.true_ids[place])?, child(nodes.false_ids[place])?);
    let (passed, failed) = if test.swapped { (no, yes) } else { (yes, no) };
    let feature = nodes.feature_ids[place];
    let feature = usize::try_from(feature).ok().filter(|&feature| feature < i32::MAX as usize);
    let feature = feature.ok_or_else(|| Unsupported::new("a node tests a negative feature"))?;
    Ok(Node::Branch { feature, threshold, test, passed, failed })
}
