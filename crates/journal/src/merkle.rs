//! RFC 6962 Merkle trees over leaf hashes: roots and inclusion paths.
//!
//! Trees grow leaf by leaf and store one hash for each bit of the count, so that a segment of any length
//! needs little memory. Knows nothing of frames.

use crate::format::Hash;
use std::borrow::Borrow;

/// A sealed segment as a leaf of the tree that checkpoints sign: its data is the segment's root.
pub(crate) fn leaf_of_segment(root: &Hash) -> Hash {
    Hash::leaf(&[&root.0])
}

/// The root that a leaf and its path produce. None: the path's length does not fit the tree.
pub(crate) fn climb(leaf: &Hash, index: u64, count: u64, path: &[Hash]) -> Option<Hash> {
    if index >= count {
        return None;
    }
    let (mut place, mut last, mut hash) = (index, count - 1, *leaf);
    for sibling in path {
        if last == 0 {
            return None;
        }
        if place & 1 == 1 || place == last {
            hash = Hash::node(sibling, &hash);
            // At the right edge of an incomplete tree, skip levels without a right half.
            while place & 1 == 0 && place != 0 {
                (place, last) = (place >> 1, last >> 1);
            }
        } else {
            hash = Hash::node(&hash, sibling);
        }
        (place, last) = (place >> 1, last >> 1);
    }
    (last == 0).then_some(hash)
}

/// A tree that grows leaf by leaf.
#[derive(Clone, Debug, Default)]
pub(crate) struct MerkleTree {
    count: u64,
    /// Roots of its complete subtrees, largest first: one for each set bit of the count.
    peaks: Vec<Hash>,
}

impl MerkleTree {
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn push(&mut self, leaf: &Hash) {
        self.push_observed(leaf, |_, _, _| ());
    }

    pub(crate) fn root(&self) -> Hash {
        let mut peaks = self.peaks.iter().rev();
        let Some(smallest) = peaks.next() else { return Hash::of(b"") };
        peaks.fold(*smallest, |right, left| Hash::node(left, &right))
    }

    /// `joined` observes each merge of two subtrees: their height and both roots.
    fn push_observed(&mut self, leaf: &Hash, mut joined: impl FnMut(u32, &Hash, &Hash)) {
        let mut hash = *leaf;
        for height in 0..self.count.trailing_ones() {
            let left = self.peaks.pop().expect("each set bit has a peak");
            joined(height, &left, &hash);
            hash = Hash::node(&left, &hash);
        }
        self.peaks.push(hash);
        self.count += 1;
    }
}

impl<H: Borrow<Hash>> FromIterator<H> for MerkleTree {
    fn from_iter<I: IntoIterator<Item = H>>(leaves: I) -> MerkleTree {
        let mut tree = MerkleTree::default();
        leaves.into_iter().for_each(|leaf| tree.push(leaf.borrow()));
        tree
    }
}

/// Collects one leaf's path while its tree grows: the sibling hashes up to the root, lowest first.
#[derive(Clone, Debug)]
pub(crate) struct PathBuilder {
    index: u64,
    tree: MerkleTree,
    path: Vec<Hash>,
}

impl PathBuilder {
    pub(crate) fn new(index: u64) -> PathBuilder {
        PathBuilder { index, tree: MerkleTree::default(), path: Vec::new() }
    }

    pub(crate) fn push(&mut self, leaf: &Hash) {
        let PathBuilder { index, tree, path } = self;
        let newest = tree.count;
        tree.push_observed(leaf, |height, left, right| {
            if *index <= newest && *index >> (height + 1) == newest >> (height + 1) {
                path.push(if *index >> height & 1 == 1 { *left } else { *right });
            }
        });
    }

    pub(crate) fn root(&self) -> Hash {
        self.tree.root()
    }

    /// None: the tree never had the leaf.
    pub(crate) fn finish(mut self) -> Option<Vec<Hash>> {
        let MerkleTree { count, peaks } = self.tree;
        if self.index >= count {
            return None;
        }
        // From the smallest peak, at the right, to the largest; `start` is the first leaf of the joined part.
        let mut joined: Option<Hash> = None;
        let mut start = count;
        for (height, peak) in (0..64).filter(|bit| count >> bit & 1 == 1).zip(peaks.iter().rev()) {
            let (above, first) = (start, start - (1 << height));
            if let Some(right) = joined {
                if self.index >= above {
                    self.path.push(*peak);
                } else if self.index >= first {
                    self.path.push(right);
                }
            }
            joined = Some(joined.map_or(*peak, |right| Hash::node(peak, &right)));
            start = first;
        }
        Some(self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn root(leaves: &[Hash]) -> Hash {
        leaves.iter().collect::<MerkleTree>().root()
    }

    fn path(leaves: &[Hash], index: u64) -> Option<Vec<Hash>> {
        let mut path = PathBuilder::new(index);
        leaves.iter().for_each(|leaf| path.push(leaf));
        path.finish()
    }

    fn hex(hash: &Hash) -> String {
        hash.to_string()
    }

    /// The leaves of the Certificate Transparency tests.
    fn known() -> Vec<Hash> {
        let data: [&[u8]; 8] = [
            b"",
            b"\x00",
            b"\x10",
            b"\x20\x21",
            b"\x30\x31",
            b"\x40\x41\x42\x43",
            b"\x50\x51\x52\x53\x54\x55\x56\x57",
            b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
        ];
        data.iter().map(|data| Hash::leaf(&[data])).collect()
    }

    /// The recursive definition of RFC 6962.
    fn defined(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Hash::of(b""),
            [leaf] => *leaf,
            leaves => {
                let split = leaves.len().next_power_of_two() / 2;
                Hash::node(&defined(&leaves[..split]), &defined(&leaves[split..]))
            }
        }
    }

    #[test]
    fn roots_are_those_of_certificate_transparency() {
        let leaves = known();
        let expected = [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        for (count, expected) in expected.iter().enumerate() {
            assert_eq!(hex(&root(&leaves[..count])), *expected, "of {count} leaves");
        }
    }

    #[test]
    fn paths_are_those_of_certificate_transparency() {
        let leaves = known();
        let texts = |path: Option<Vec<Hash>>| path.expect("a path").iter().map(hex).collect::<Vec<_>>();
        assert_eq!(
            texts(path(&leaves, 0)),
            [
                "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
            ]
        );
        assert_eq!(
            texts(path(&leaves[..3], 2)),
            ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]
        );
        assert_eq!(path(&leaves[..3], 3), None);
    }

    proptest! {
        #[test]
        fn every_leaf_climbs_to_the_root_and_no_other_does(count in 1u64..200, place in any::<prop::sample::Index>()) {
            let leaves: Vec<Hash> = (0..count).map(|leaf| Hash::leaf(&[&leaf.to_le_bytes()])).collect();
            let index = place.index(leaves.len()) as u64;
            let root = root(&leaves);
            prop_assert_eq!(root, defined(&leaves));
            let path = path(&leaves, index).expect("the leaf is there");
            let leaf = leaves[index as usize];
            prop_assert_eq!(climb(&leaf, index, count, &path), Some(root));
            let other = Hash::leaf(&[b"other"]);
            prop_assert_ne!(climb(&other, index, count, &path), Some(root));
            prop_assert_ne!(climb(&leaf, (index + 1) % (count + 1), count, &path), Some(root));
            let longer: Vec<Hash> = path.iter().copied().chain([other]).collect();
            prop_assert_eq!(climb(&leaf, index, count, &longer), None);
        }
    }
}
