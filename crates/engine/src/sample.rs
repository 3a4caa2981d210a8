//! Sample inputs for probing, warming up and timing a model: seeded, so that loads are repeatable.

use crate::Signature;
use bytes::Bytes;
use flyball_core::{DataType, Shape, Tensor, TensorData, TensorSpec};
use half::{bf16, f16};

/// SplitMix64: small, seeded, good enough for inputs that only have to differ.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in -1..1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// Floats of different spread in one batch reveal whether a model scales over it.
const SPREADS: [f64; 4] = [1.0, 100.0, 0.01, 7.0];

/// Sample rows, equal in every process: derived from the signature, a length and their number.
pub(crate) struct SampleRows {
    seeded: Seeded,
    /// The length of free axes other than the first.
    pub(crate) length: i64,
    rows: Vec<Vec<Tensor>>,
}

impl SampleRows {
    /// No rows yet. Free axes other than the first get `length`.
    pub(crate) fn new(length: i64) -> SampleRows {
        SampleRows { seeded: Seeded(1), length, rows: Vec::new() }
    }

    pub(crate) fn of(signature: &Signature, length: i64, count: usize) -> SampleRows {
        let mut sample_rows = SampleRows::new(length);
        for _ in 0..count {
            sample_rows.add(signature);
        }
        sample_rows
    }

    /// Generates one more row.
    pub(crate) fn add(&mut self, signature: &Signature) -> &[Tensor] {
        let spread = SPREADS[self.rows.len() % SPREADS.len()];
        let input = |spec| tensor(spec, &mut self.seeded, spread, self.length);
        self.rows.push(signature.inputs.iter().map(input).collect());
        &self.rows[self.rows.len() - 1]
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Elements of one row over all inputs.
    pub(crate) fn elements(&self) -> usize {
        self.rows.first().map_or(&[][..], Vec::as_slice).iter().map(Tensor::size).sum::<usize>().max(1)
    }

    /// The same if axes other than the first are free: longer rows take longer.
    pub(crate) fn row_elements(&self, signature: &Signature) -> Option<usize> {
        signature.has_free_axes().then(|| self.elements())
    }

    /// Inputs for a run of `rows` rows.
    pub(crate) fn batch(&self, rows: usize) -> Vec<&[Tensor]> {
        self.turned(rows, 0).map(|place| self.row(place)).collect()
    }

    pub(crate) fn row(&self, place: usize) -> &[Tensor] {
        &self.rows[place]
    }

    /// The rows of a batch that is rotated by `turn`.
    pub(crate) fn turned(&self, rows: usize, turn: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.rows.len();
        (0..count).cycle().skip(turn % count.max(1)).take(rows)
    }
}

/// A sample row of one input.
///
/// `spread` scales the floats. Free axes other than the first get `length`. Integers stay 0 or 1, which every
/// vocabulary and category has.
fn tensor(spec: &TensorSpec, seeded: &mut Seeded, spread: f64, length: i64) -> Tensor {
    let size = |(place, &axis): (usize, &i64)| match (place, axis) {
        (0, -1) => 1,
        (_, -1) => length,
        (_, fixed) => fixed,
    };
    let shape: Shape = spec.shape.iter().enumerate().map(size).collect();
    let elements = Tensor::elements(&shape).unwrap_or(0);
    let data = match spec.datatype {
        DataType::Bytes => TensorData::Strings(
            (0..elements).map(|_| vec![b'a' + (seeded.next() % 8) as u8].into()).collect(),
        ),
        fixed => {
            let mut bytes = Vec::with_capacity(elements * fixed.size().unwrap_or(0));
            (0..elements).for_each(|_| element(fixed, seeded, spread, &mut bytes));
            TensorData::Fixed(Bytes::from(bytes))
        }
    };
    Tensor { name: spec.name.as_str().into(), datatype: spec.datatype, shape, data }
}

fn element(datatype: DataType, seeded: &mut Seeded, spread: f64, bytes: &mut Vec<u8>) {
    let float = seeded.unit() * spread;
    let bit = (seeded.next() & 1) as u8;
    match datatype {
        DataType::Fp64 => bytes.extend(float.to_le_bytes()),
        DataType::Fp32 => bytes.extend((float as f32).to_le_bytes()),
        DataType::Fp16 => bytes.extend(f16::from_f64(float).to_le_bytes()),
        DataType::Bf16 => bytes.extend(bf16::from_f64(float).to_le_bytes()),
        whole => {
            bytes.push(bit);
            bytes.extend(std::iter::repeat_n(0, whole.size().unwrap_or(1) - 1));
        }
    }
}
