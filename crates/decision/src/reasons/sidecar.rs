//! The file beside a model that has its trees with their covers, which ONNX does not carry. `python/flyball/models/attribution`
//! writes it; docs/reference/explain-sidecar.md describes it. Every reading is checked and bounded, because the file
//! comes from outside. Knows nothing of contributions.

use serde::Deserialize;
use std::collections::BTreeMap;

const BYTES_MAX: usize = 64 << 20;
const COLUMNS_MAX: usize = 65_536;
const TREES_MAX: usize = 20_000;
/// Maximum leaves of all trees together.
const LEAVES_MAX: usize = 200_000;

const FORMAT: &str = "flyball.trees/1";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sidecar {
    format: String,
    pub(super) columns: usize,
    /// The meaning of the trees' sum, for people: "log-odds of class 1".
    #[serde(rename = "margin")]
    _margin: String,
    /// The start value of the trees' sum.
    pub(super) base: f64,
    pub(super) below: Below,
    pub(super) trees: Vec<TreeText>,
}

/// Which values go left of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Below {
    #[serde(rename = "<=")]
    OrEqual,
    #[serde(rename = "<")]
    Only,
}

/// The handling of NaN in a split, and whether zero counts as missing too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Missing {
    Left,
    Right,
    ZeroLeft,
    ZeroRight,
    /// NaN is treated as 0 and compared.
    AsZero,
}

/// A tree as lists with one item for each split.
///
/// A non-negative child is a split that comes later in the lists; a negative one is the leaf -1 - child. The
/// root is the first split, or the only leaf without splits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TreeText {
    pub(super) feature: Vec<u32>,
    pub(super) threshold: Vec<f64>,
    pub(super) missing: Vec<Missing>,
    pub(super) left: Vec<i32>,
    pub(super) right: Vec<i32>,
    /// The categories that go left, by split; such a split has threshold 0 and sends NaN right.
    #[serde(default)]
    pub(super) categories: BTreeMap<u32, Vec<u32>>,
    pub(super) value: Vec<f64>,
    /// Training weight of each leaf; greater than zero.
    pub(super) cover: Vec<f64>,
}

/// Parses the file; the error names the first fault for the file's author.
pub(super) fn read(bytes: &[u8]) -> Result<Sidecar, String> {
    if bytes.len() > BYTES_MAX {
        return Err(format!("a file of at most {BYTES_MAX} bytes; it has {}", bytes.len()));
    }
    let sidecar: Sidecar = serde_json::from_slice(bytes)
        .map_err(|error| format!("a file as flyball.models.attribution writes it; {error}"))?;
    if sidecar.format != FORMAT {
        return Err(format!(
            "format \"{FORMAT}\"; write the file again with this flyball.models.attribution"
        ));
    }
    if !(1..=COLUMNS_MAX).contains(&sidecar.columns) {
        return Err(format!("1 to {COLUMNS_MAX} columns; it has {}", sidecar.columns));
    }
    if !sidecar.base.is_finite() {
        return Err("a base that is a finite number".to_owned());
    }
    if !(1..=TREES_MAX).contains(&sidecar.trees.len()) {
        return Err(format!("1 to {TREES_MAX} trees; it has {}", sidecar.trees.len()));
    }
    let leaves: usize = sidecar.trees.iter().map(|tree| tree.value.len()).sum();
    if leaves > LEAVES_MAX {
        return Err(format!(
            "at most {LEAVES_MAX} leaves in all; it has {leaves}: train smaller trees or explain by ablation"
        ));
    }
    for (place, tree) in sidecar.trees.iter().enumerate() {
        check(tree, sidecar.columns).map_err(|text| format!("trees[{place}] with {text}"))?;
    }
    Ok(sidecar)
}

fn check(tree: &TreeText, columns: usize) -> Result<(), String> {
    let (splits, leaves) = (tree.feature.len(), tree.value.len());
    if leaves != splits + 1 || tree.cover.len() != leaves {
        return Err(format!("{} values and covers, one more than splits", splits + 1));
    }
    let lists = [tree.threshold.len(), tree.missing.len(), tree.left.len(), tree.right.len()];
    if lists.iter().any(|length| *length != splits) {
        return Err(format!("{splits} entries in each list of its splits"));
    }
    if let Some(feature) = tree.feature.iter().find(|feature| **feature as usize >= columns) {
        return Err(format!("features below {columns}, the number of columns; one is {feature}"));
    }
    if !tree.threshold.iter().chain(&tree.value).all(|number| number.is_finite()) {
        return Err("thresholds and values that are finite".to_owned());
    }
    // The upper limit keeps sums and shares of covers far from overflow.
    if let Some(cover) = tree.cover.iter().find(|cover| !(**cover > 0.0 && **cover <= 1e18)) {
        return Err(format!("covers above 0; one is {cover}"));
    }
    check_categories(tree)?;
    check_children(tree)
}

fn check_categories(tree: &TreeText) -> Result<(), String> {
    for (split, values) in &tree.categories {
        let place = *split as usize;
        if place >= tree.feature.len() {
            return Err(format!("categories only of existing splits; {split} is not one"));
        }
        if tree.threshold[place] != 0.0 || tree.missing[place] != Missing::Right {
            return Err(format!(
                "threshold 0 and missing \"right\" where there are categories, at split {split}"
            ));
        }
        let rising = values.windows(2).all(|pair| pair[0] < pair[1]);
        if values.is_empty() || !rising || values.iter().any(|value| *value > i32::MAX as u32) {
            return Err(format!("categories in rising order below 2^31, at split {split}"));
        }
    }
    Ok(())
}

/// Checks that the splits form a tree: every split but the root, and every leaf, has one earlier parent.
fn check_children(tree: &TreeText) -> Result<(), String> {
    let splits = tree.feature.len();
    let mut split_seen = vec![false; splits];
    let mut leaf_seen = vec![splits == 0; tree.value.len()];
    let children = tree.left.iter().zip(&tree.right).enumerate();
    for (parent, child) in children.flat_map(|(at, (left, right))| [(at, *left), (at, *right)]) {
        let seen = match usize::try_from(child) {
            Ok(split) if split > parent => split_seen.get_mut(split),
            Ok(_) => None,
            Err(_) => leaf_seen.get_mut((-1 - child) as usize),
        };
        match seen {
            Some(seen) if !*seen => *seen = true,
            _ => {
                return Err(format!(
                    "children that come later and have one parent; split {parent} has {child}"
                ));
            }
        }
    }
    // Two children for each split and none twice: nothing can remain.
    Ok(())
}
