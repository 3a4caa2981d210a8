//! Trees in the general form: any test, nodes with several parents, any size. Walked one path at a time.
//!
//! For equality tests, as LightGBM's categories have them, and for what does not fit the flat form.

use crate::branch::{NAN_LOW, Test, key};
use crate::forest::{Forest, Node};

#[derive(Debug)]
pub(crate) struct Linked {
    nodes: Vec<LinkedNode>,
    roots: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
enum LinkedNode {
    Branch { feature: usize, test: Test, passed: usize, failed: usize },
    Leaf(i32),
}

impl Linked {
    pub(crate) fn of(forest: &Forest, content: impl Fn(usize) -> i32) -> Linked {
        let node = |(place, node): (usize, &Node)| match *node {
            Node::Branch { feature, test, passed, failed, .. } => {
                LinkedNode::Branch { feature, test, passed, failed }
            }
            Node::Leaf { .. } => LinkedNode::Leaf(content(place)),
        };
        let nodes = forest.nodes.iter().enumerate().map(node).collect();
        Linked { nodes, roots: forest.trees.iter().map(|tree| tree.start).collect() }
    }

    /// Calls `land` with tree, row and leaf content; every row has its trees in their order.
    pub(crate) fn walk(
        &self,
        rows: &[f32],
        columns: usize,
        keys: &mut Vec<i32>,
        mut land: impl FnMut(usize, usize, i32),
    ) {
        keys.clear();
        keys.extend(rows.iter().map(|&value| key(value, NAN_LOW)));
        for (tree, &root) in self.roots.iter().enumerate() {
            for (number, row) in keys.chunks_exact(columns).enumerate() {
                land(tree, number, self.leaf(root, row));
            }
        }
    }

    /// Ends, because no path of a forest returns to itself.
    fn leaf(&self, root: usize, row: &[i32]) -> i32 {
        let mut at = root;
        loop {
            match self.nodes[at] {
                LinkedNode::Leaf(content) => return content,
                LinkedNode::Branch { feature, test, passed, failed } => {
                    at = if test.passes(row[feature]) { passed } else { failed };
                }
            }
        }
    }
}
