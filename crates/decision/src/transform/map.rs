//! Steps from number to number, with exactly specified arithmetic.
//!
//! f64 throughout, every operation rounded once, never fused, so that NumPy's result is bit-identical
//! (logarithms: to the last place).

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Map {
    /// The value where x is missing.
    Impute(f64),
    /// 1 where x is missing, else 0.
    Missing,
    /// Towards zero.
    Truncate,
    /// 0 where x is 0, else 1.
    Truth,
    /// x * factor, rounded, + offset.
    Scale { factor: f64, offset: f64 },
    /// x - mean, rounded, / scale.
    Standardize { mean: f64, scale: f64 },
    /// The C library's log; of 0 −∞, of negatives NaN.
    Log,
    /// The C library's log1p.
    Log1p,
    /// The bound if x is beyond it.
    Clip { min: f64, max: f64 },
    /// How many edges are at or below x. They ascend.
    Bucket(Box<[f64]>),
}

impl Map {
    pub(super) fn apply(&self, x: f64) -> f64 {
        match self {
            Map::Impute(value) if x.is_nan() => *value,
            Map::Missing => f64::from(u8::from(x.is_nan())),
            _ if x.is_nan() => x,
            Map::Impute(_) => x,
            Map::Truncate => x.trunc(),
            Map::Truth => f64::from(u8::from(x != 0.0)),
            Map::Scale { factor, offset } => x * factor + offset,
            Map::Standardize { mean, scale } => (x - mean) / scale,
            Map::Log => x.ln(),
            Map::Log1p => x.ln_1p(),
            Map::Clip { min, .. } if x < *min => *min,
            Map::Clip { max, .. } if x > *max => *max,
            Map::Clip { .. } => x,
            Map::Bucket(edges) => edges.partition_point(|edge| *edge <= x) as f64,
        }
    }
}
