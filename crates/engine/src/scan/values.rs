//! Which tensors depend on input values, and which operators take sizes from them.
//!
//! The input's shapes are known before a run, and its time was measured for them; its values are not.

use super::wire::Piece;
use std::collections::HashSet;

/// The tensors of one graph or function, with all nested graphs.
///
/// Unknown ones may depend on anything: nodes come in any order, and a function's parameters are whatever its
/// caller passes.
#[derive(Default)]
pub(super) struct Values<'a> {
    fixed: HashSet<&'a [u8]>,
    /// Stays dependent, whatever a nested graph calls by the same name.
    dependent: HashSet<&'a [u8]>,
}

/// The tensors of a node.
#[derive(Default)]
pub(super) struct NodeTensors<'a> {
    pub(super) inputs: Vec<&'a [u8]>,
    pub(super) outputs: Vec<&'a [u8]>,
}

impl<'a> Values<'a> {
    pub(super) fn constant(&mut self, name: Piece<'a>) {
        self.fixed.insert(name.bytes);
    }

    /// An input of a graph. Older files list constants among them.
    pub(super) fn input(&mut self, name: Piece<'a>) {
        if !self.fixed.contains(name.bytes) {
            self.dependent.insert(name.bytes);
        }
    }

    /// Propagates dependence from a node's inputs to its outputs.
    pub(super) fn pass(&mut self, ends: &NodeTensors<'a>, op: &str) {
        let fixed = match op {
            // Only the shape matters.
            "Shape" | "Size" => true,
            "RandomNormal" | "RandomUniform" | "RandomNormalLike" | "RandomUniformLike" | "Bernoulli"
            | "Multinomial" => false,
            _ => ends.inputs.iter().all(|name| self.is_fixed(name)),
        };
        let names = if fixed { &mut self.fixed } else { &mut self.dependent };
        names.extend(&ends.outputs);
    }

    /// Propagates through a node with nested graphs or a function call, which may use more than its inputs.
    pub(super) fn pass_unknown(&mut self, ends: &NodeTensors<'a>) {
        self.dependent.extend(&ends.outputs);
    }

    /// Whether the operator's output size or run time depends on input values without a bound by shapes.
    pub(super) fn size_depends(&self, ends: &NodeTensors<'a>, op: &str) -> bool {
        let dependent = |place: &usize| ends.inputs.get(*place).is_some_and(|name| !self.is_fixed(name));
        sizes(op).iter().any(dependent)
    }

    fn is_fixed(&self, name: &[u8]) -> bool {
        // An omitted optional input has no name.
        name.is_empty() || (self.fixed.contains(name) && !self.dependent.contains(name))
    }
}

/// Operators whose run time depends on their input.
pub(super) fn loops(op: &str) -> bool {
    matches!(
        op,
        "Loop" | "Scan" | "SequenceMap" | "BeamSearch" | "GreedySearch" | "Sampling" | "WhisperBeamSearch"
    )
}

/// The inputs of an operator that are sizes, in any version.
fn sizes(op: &str) -> &'static [usize] {
    match op {
        "ConstantOfShape" | "HannWindow" | "HammingWindow" | "BlackmanWindow" => &[0],
        // Texts and images, which contain the size of their result.
        "StringSplit" | "Tokenizer" | "ImageDecoder" => &[0],
        "Expand" | "Pad" | "OneHot" | "Upsample" | "DFT" | "AffineGrid" | "CenterCropPad" => &[1],
        "MaxUnpool" => &[2],
        "CropAndResize" => &[3],
        "MelWeightMatrix" => &[0, 1],
        "Tile" | "Col2Im" => &[1, 2],
        "STFT" => &[1, 3],
        "Range" => &[0, 1, 2],
        "Resize" => &[1, 2, 3],
        _ => &[],
    }
}
