//! The test of one node, on integers: every comparison of ONNX becomes "at most" or "equal".
//!
//! Floats are mapped to integers of the same order, once for each value of a row. Then `x < t` is `x <= t - 1`,
//! greater is not at most with the children swapped, and NaN is one more integer, below or above all others: no
//! comparison needs a case for it.

use crate::Mode;

/// NaN where it goes to the child of small values, and where it goes to the other.
pub(crate) const NAN_LOW: i32 = i32::MIN;
pub(crate) const NAN_HIGH: i32 = i32::MAX;

/// An integer in the order of the floats. 0.0 and -0.0 have the same.
#[inline(always)]
pub(crate) fn key(value: f32, nan: i32) -> i32 {
    // Adding zero turns -0.0 into 0.0 and changes nothing else.
    let bits = (value + 0.0).to_bits() as i32;
    let key = bits ^ (((bits >> 31) as u32) >> 1) as i32;
    if value.is_nan() { nan } else { key }
}

/// The test of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) kind: Kind,
    pub(crate) key: i32,
    /// The child of rows that pass is the one that ONNX calls false.
    pub(crate) swapped: bool,
    /// NaN passes.
    pub(crate) nan_passes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AtMost,
    Equal,
}

impl Test {
    /// None for a leaf. `missing_true`: NaN takes the true branch.
    pub(crate) fn of(mode: Mode, threshold: f32, missing_true: bool) -> Option<Test> {
        let (kind, below, swapped) = match mode {
            Mode::Leq => (Kind::AtMost, false, false),
            Mode::Lt => (Kind::AtMost, true, false),
            Mode::Gt => (Kind::AtMost, false, true),
            Mode::Gte => (Kind::AtMost, true, true),
            Mode::Eq => (Kind::Equal, false, false),
            Mode::Neq => (Kind::Equal, false, true),
            Mode::Leaf => return None,
        };
        let key = if threshold.is_nan() {
            // A comparison with NaN is false, which is the other child where they are swapped.
            match kind {
                Kind::AtMost if swapped => key(f32::INFINITY, 0),
                Kind::AtMost => key(f32::NEG_INFINITY, 0) - 1,
                // No number has this key.
                Kind::Equal => NAN_HIGH,
            }
        } else {
            key(threshold, 0) - i32::from(below)
        };
        // NaN is unequal to everything, so it takes the true branch of that mode in any case.
        let nan_true = missing_true || mode == Mode::Neq;
        Some(Test { kind, key, swapped, nan_passes: nan_true != swapped })
    }

    /// Whether a value passes, by its key with NaN low.
    #[inline(always)]
    pub(crate) fn passes(self, value: i32) -> bool {
        match (value, self.kind) {
            (NAN_LOW, _) => self.nan_passes,
            (value, Kind::AtMost) => value <= self.key,
            (value, Kind::Equal) => value == self.key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CORNERS: [f32; 13] = [
        f32::NEG_INFINITY,
        f32::MIN,
        -1.0,
        -f32::MIN_POSITIVE,
        -1e-45,
        -0.0,
        0.0,
        1e-45,
        f32::MIN_POSITIVE,
        1.0,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    const MODES: [Mode; 6] = [Mode::Leq, Mode::Lt, Mode::Gte, Mode::Gt, Mode::Eq, Mode::Neq];

    /// As ONNX Runtime writes it.
    fn takes_true(mode: Mode, value: f32, threshold: f32, missing_true: bool) -> bool {
        let compared = match mode {
            Mode::Leq => value <= threshold,
            Mode::Lt => value < threshold,
            Mode::Gte => value >= threshold,
            Mode::Gt => value > threshold,
            Mode::Eq => value == threshold,
            Mode::Neq => value != threshold,
            Mode::Leaf => unreachable!("leaves compare nothing"),
        };
        compared || (missing_true && value.is_nan())
    }

    fn assert_same(value: f32, threshold: f32) {
        for mode in MODES {
            for missing_true in [false, true] {
                let test = Test::of(mode, threshold, missing_true).unwrap();
                let found = test.passes(key(value, NAN_LOW)) != test.swapped;
                let wanted = takes_true(mode, value, threshold, missing_true);
                assert_eq!(found, wanted, "{value:?} {mode:?} {threshold:?}, missing true: {missing_true}");
            }
        }
    }

    #[test]
    fn every_mode_compares_as_floats_do_at_all_corners() {
        for value in CORNERS {
            CORNERS.iter().for_each(|&threshold| assert_same(value, threshold));
        }
    }

    #[test]
    fn a_leaf_has_no_test() {
        assert_eq!(Test::of(Mode::Leaf, 1.0, true), None);
    }

    proptest! {
        #[test]
        fn every_mode_compares_as_floats_do(value in any::<u32>(), threshold in any::<u32>(), step in -2_i32..3) {
            let (value, threshold) = (f32::from_bits(value), f32::from_bits(threshold));
            assert_same(value, threshold);
            let neighbour = f32::from_bits(threshold.to_bits().wrapping_add_signed(step));
            assert_same(neighbour, threshold);
        }
    }
}
