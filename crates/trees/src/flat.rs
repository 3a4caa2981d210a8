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

/// A row goes right if its slot is greater than the key. One number, so that one load brings all of it.
///
/// From the low end: the key, or of a leaf its content; the slot; the step to the left child, zero for a leaf.
#[derive(Clone, Copy, Debug)]
struct FlatNode(u64);

impl FlatNode {
    fn new(key: i32, slot: u16, step: u16) -> FlatNode {
        FlatNode(u64::from(key as u32) | (u64::from(slot) << 32) | (u64::from(step) << 48))
    }

    fn leaf(content: i32) -> FlatNode {
        FlatNode::new(content, LEAF_SLOT, 0)
    }

    #[inline(always)]
    fn key(self) -> i32 {
        self.0 as i32
    }

    #[inline(always)]
    fn slot(self) -> usize {
        usize::from((self.0 >> 32) as u16)
    }

    #[inline(always)]
    fn step(self) -> u32 {
        (self.0 >> 48) as u32
    }
}

/// The integers of a row: one that is greater than no key, for leaves, then its values once or twice.
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

    /// Fills the slots of some rows, the same slot of all rows together.
    fn fill<const ROWS: usize>(self, rows: &[f32], columns: usize, slots: &mut [i32]) {
        slots[..ROWS].fill(i32::MIN);
        let mut start = ROWS;
        for (used, nan) in [(self.low, NAN_LOW), (self.high, NAN_HIGH)] {
            if used {
                let slots = &mut slots[start..start + self.columns * ROWS];
                for (row, values) in rows.chunks_exact(columns).take(ROWS).enumerate() {
                    for (slot, &value) in slots.chunks_exact_mut(ROWS).zip(values) {
                        slot[row] = key(value, nan);
                    }
                }
                start += self.columns * ROWS;
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
        let mut flat =
            Flat { nodes: vec![FlatNode::leaf(0)], roots: Vec::new(), trees: forest.trees.len(), slots };
        for tree in &forest.trees {
            flat.roots.push(u32::try_from(flat.nodes.len()).ok()?);
            flat.nodes.push(FlatNode::leaf(0));
            let mut open = VecDeque::from([(tree.start, flat.nodes.len() - 1)]);
            while let Some((place, at)) = open.pop_front() {
                flat.nodes[at] = match &forest.nodes[place] {
                    Node::Leaf { .. } => FlatNode::leaf(content(place)),
                    Node::Branch { feature, test, passed, failed, .. } => {
                        let left = flat.nodes.len();
                        flat.nodes.extend([FlatNode::leaf(0); 2]);
                        open.extend([(*passed, left), (*failed, left + 1)]);
                        let slot = slots.slot(*feature, test.nan_passes)?;
                        FlatNode::new(test.key, slot, u16::try_from(left - at).ok()?)
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
        let count = rows.len() / columns;
        let mut done = 0;
        while done < count {
            let rest = &rows[done * columns..];
            let mut land = |tree, row, content| land(tree, done + row, content);
            done += match count - done {
                // Sixteen rows at once are slower: their places no longer fit the registers.
                8.. => self.block::<2, 8>(rest, columns, slots, &mut land),
                4.. => self.block::<3, 4>(rest, columns, slots, &mut land),
                2.. => self.block::<6, 2>(rest, columns, slots, &mut land),
                _ => self.block::<PATHS, 1>(rest, columns, slots, &mut land),
            };
        }
    }

    /// Walks `ROWS` rows through `TREES` trees at a time; returns the number of rows.
    #[expect(clippy::needless_range_loop, reason = "see `step`")]
    fn block<const TREES: usize, const ROWS: usize>(
        &self,
        rows: &[f32],
        columns: usize,
        slots: &mut Vec<i32>,
        land: &mut impl FnMut(usize, usize, i32),
    ) -> usize {
        slots.resize(self.slots.width() * ROWS, 0);
        self.slots.fill::<ROWS>(rows, columns, slots);
        let mut first = 0;
        while first < self.trees {
            let mut at = [[0; ROWS]; TREES];
            for tree in 0..TREES {
                at[tree] = [self.roots[first + tree]; ROWS];
            }
            while self.step(&mut at, slots) {}
            for tree in 0..TREES.min(self.trees - first) {
                for row in 0..ROWS {
                    land(first + tree, row, self.nodes[at[tree][row] as usize].key());
                }
            }
            first += TREES;
        }
        ROWS
    }

    /// Takes every path one level down; false once all have ended.
    ///
    /// Loops by number, not by iterators: the compiler then unrolls them, and a step is 3 ns less.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "iterators over arrays of arrays are not unrolled")]
    fn step<const TREES: usize, const ROWS: usize>(
        &self,
        at: &mut [[u32; ROWS]; TREES],
        slots: &[i32],
    ) -> bool {
        let mut moved = 0;
        for tree in 0..TREES {
            for row in 0..ROWS {
                let from = at[tree][row];
                let node = self.nodes[from as usize];
                let right = slots[node.slot() * ROWS + row] > node.key();
                // The sum fits: it was checked when the tree was laid out.
                at[tree][row] = from.wrapping_add(node.step()).wrapping_add(u32::from(right));
                moved |= node.step();
            }
        }
        moved != 0
    }
}
