//! Which tensors depend on the values of a model's input, and which operators take a size from such a tensor. The shapes of
//! the input are known before a run and its time was measured for them; its values are not.

use super::wire::Piece;
use std::collections::HashSet;

/// The tensors of one graph or function, with all graphs inside. What was never seen may depend on anything: nodes may
/// stand in any order, and a function's parameters are whatever its caller gives.
#[derive(Default)]
pub(super) struct Values<'a> {
    fixed: HashSet<&'a [u8]>,
    /// Stays, whatever a graph inside calls by the same name.
    dependent: HashSet<&'a [u8]>,
}

/// A node, as far as its tensors matter.
#[derive(Default)]
pub(super) struct Ends<'a> {
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

    /// What a node makes of its inputs.
    pub(super) fn pass(&mut self, ends: &Ends<'a>, op: &str) {
        let fixed = match op {
            // Only the shape is looked at.
            "Shape" | "Size" => true,
            "RandomNormal" | "RandomUniform" | "RandomNormalLike" | "RandomUniformLike" | "Bernoulli"
            | "Multinomial" => false,
            _ => ends.inputs.iter().all(|name| self.is_fixed(name)),
        };
        let names = if fixed { &mut self.fixed } else { &mut self.dependent };
        names.extend(&ends.outputs);
    }

    /// What a node makes that has graphs inside, or that calls a function: they may use more than its inputs.
    pub(super) fn pass_unknown(&mut self, ends: &Ends<'a>) {
        self.dependent.extend(&ends.outputs);
    }

    /// Whether the size of what the operator makes, or how long it runs, depends on the input's values without a bound that
    /// its shapes would give.
    pub(super) fn size_depends(&self, ends: &Ends<'a>, op: &str) -> bool {
        let dependent = |place: &usize| ends.inputs.get(*place).is_some_and(|name| !self.is_fixed(name));
        sizes(op).iter().any(dependent)
    }

    fn is_fixed(&self, name: &[u8]) -> bool {
        // An optional input that is left out has no name.
        name.is_empty() || (self.fixed.contains(name) && !self.dependent.contains(name))
    }
}

/// Operators that run for as long as their input says.
pub(super) fn loops(op: &str) -> bool {
    matches!(
        op,
        "Loop" | "Scan" | "SequenceMap" | "BeamSearch" | "GreedySearch" | "Sampling" | "WhisperBeamSearch"
    )
}

/// Which inputs of an operator are sizes, in any version of it.
fn sizes(op: &str) -> &'static [usize] {
    match op {
        "ConstantOfShape" | "HannWindow" | "HammingWindow" | "BlackmanWindow" => &[0],
        // Texts and pictures, which hold what they come to.
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
