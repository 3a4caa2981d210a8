//! Trees for speed: nodes of eight bytes, in the order of their levels, several paths walked at once.
//!
//! The right child follows the left one, and a leaf is its own left child, so that a step needs no branch: a
//! path that has ended stays where it is. One path waits for memory at every step; twelve at once wait together.
//! Rows are integers here, see `branch`.

use crate::branch::{Kind, NAN_HIGH, NAN_LOW, key};
use crate::forest::{Forest, Node};
use std::collections::VecDeque;

/// Paths walked at once for one row. Trees are padded to a multiple of it.
const PATHS: usize = 12;

#[derive(Debug)]
pub(crate) struct Flat {
    nodes: Vec<FlatNode>,
    /// The root of each tree, then those of empty trees up to a multiple of `PATHS`.
    roots: Vec<u32>,
    trees: usize,
    slots: Slots,
}

/// A row goes right if its slot is greater than the key.
#[derive(Clone, Copy, Debug)]
struct FlatNode {
    /// Of a leaf: its content.
    key: i32,
    slot: u16,
    /// From here to the left child; 0: a leaf.
    step: u16,
}

/// The integers of a row: one greater than no key, for leaves, then its values once or twice.
#[derive(Clone, Copy, Debug)]
struct Slots {
    columns: usize,
    /// NaN goes left in some nodes, right in others.
    low: bool,
    high: bool,
}

/// The slot that is greater than no key.
const LEAF_SLOT: u16 = 0;

impl Slots {
    fn width(self) -> usize {
        1 + self.columns * (usize::from(self.low) + usize::from(self.high))
    }

    fn slot(self, feature: usize, nan_passes: bool) -> Option<u16> {
        let high = if nan_passes || !self.low { 0 } else { self.columns };
        u16::try_from(1 + high + feature).ok()
    }

    fn fill(self, row: &[f32], slots: &mut [i32]) {
        let (leaf, values) = slots.split_at_mut(1);
        leaf[0] = i32::MIN;
        let mut halves = values.chunks_exact_mut(self.columns);
        for (used, nan) in [(self.low, NAN_LOW), (self.high, NAN_HIGH)] {
            if used && let Some(half) = halves.next() {
                half.iter_mut().zip(row).for_each(|(slot, &value)| *slot = key(value, nan));
            }
        }
    }
}

impl Flat {
    /// None if the trees need another form. `content` is what to know of a leaf.
    pub(crate) fn of(forest: &Forest, content: impl Fn(usize) -> i32) -> Option<Flat> {
        if forest.shared {
            return None;
        }
        let mut slots = Slots { columns: forest.columns_min, low: false, high: false };
        for node in &forest.nodes {
            if let Node::Branch { test, .. } = node {
                if test.kind != Kind::AtMost {
                    return None;
                }
                slots.low |= test.nan_passes;
                slots.high |= !test.nan_passes;
            }
        }
        // The first node is the one leaf of all empty trees.
        let leaf = |key| FlatNode { key, slot: LEAF_SLOT, step: 0 };
        let mut flat = Flat { nodes: vec![leaf(0)], roots: Vec::new(), trees: forest.trees.len(), slots };
        for tree in &forest.trees {
            flat.roots.push(u32::try_from(flat.nodes.len()).ok()?);
            flat.nodes.push(leaf(0));
            let mut open = VecDeque::from([(tree.start, flat.nodes.len() - 1)]);
            while let Some((place, at)) = open.pop_front() {
                flat.nodes[at] = match &forest.nodes[place] {
                    Node::Leaf { .. } => leaf(content(place)),
                    Node::Branch { feature, test, passed, failed, .. } => {
                        let left = flat.nodes.len();
                        flat.nodes.extend([leaf(0); 2]);
                        open.extend([(*passed, left), (*failed, left + 1)]);
                        let slot = slots.slot(*feature, test.nan_passes)?;
                        FlatNode { key: test.key, slot, step: u16::try_from(left - at).ok()? }
                    }
                };
            }
        }
        u32::try_from(flat.nodes.len()).ok()?;
        flat.roots.resize(flat.trees.next_multiple_of(PATHS), 0);
        Some(flat)
    }

    /// Calls `land` with tree, row and leaf content; every row has its trees in their order.
    pub(crate) fn walk(
        &self,
        rows: &[f32],
        columns: usize,
        slots: &mut Vec<i32>,
        mut land: impl FnMut(usize, usize, i32),
    ) {
        let width = self.slots.width();
        let count = rows.len() / columns;
        slots.resize(count * width, 0);
        for (row, slots) in rows.chunks_exact(columns).zip(slots.chunks_exact_mut(width)) {
            self.slots.fill(row, slots);
        }
        let mut done = 0;
        while done < count {
            let rest = &slots[done * width..];
            let mut land = |tree, row, content| land(tree, done + row, content);
            done += match count - done {
                16.. => self.block::<1, 16>(rest, width, &mut land),
                8.. => self.block::<2, 8>(rest, width, &mut land),
                4.. => self.block::<3, 4>(rest, width, &mut land),
                2.. => self.block::<6, 2>(rest, width, &mut land),
                _ => self.block::<PATHS, 1>(rest, width, &mut land),
            };
        }
    }

    /// Walks `ROWS` rows through `TREES` trees at a time; returns the number of rows.
    fn block<const TREES: usize, const ROWS: usize>(
        &self,
        slots: &[i32],
        width: usize,
        land: &mut impl FnMut(usize, usize, i32),
    ) -> usize {
        let rows: [&[i32]; ROWS] = std::array::from_fn(|row| &slots[row * width..(row + 1) * width]);
        for (number, roots) in self.roots.chunks_exact(TREES).enumerate() {
            let first = number * TREES;
            if first >= self.trees {
                break;
            }
            let mut at: [[u32; ROWS]; TREES] = std::array::from_fn(|tree| [roots[tree]; ROWS]);
            while self.step(&mut at, &rows) {}
            for (tree, at) in (first..self.trees).zip(&at) {
                for (row, &at) in at.iter().enumerate() {
                    land(tree, row, self.nodes[at as usize].key);
                }
            }
        }
        ROWS
    }

    /// Takes every path one level down; false once all have ended.
    #[inline(always)]
    fn step<const TREES: usize, const ROWS: usize>(
        &self,
        at: &mut [[u32; ROWS]; TREES],
        rows: &[&[i32]; ROWS],
    ) -> bool {
        let mut moved = 0;
        for tree in at {
            for (at, row) in tree.iter_mut().zip(rows) {
                let node = self.nodes[*at as usize];
                let right = row[usize::from(node.slot)] > node.key;
                // Its length was checked to fit when it was built.
                *at = at.wrapping_add(u32::from(node.step)).wrapping_add(u32::from(right));
                moved |= node.step;
            }
        }
        moved != 0
    }
}
