//! Made-up inputs for probing, warming and timing a model: seeded, so that two loads of one model do the same.

use crate::Signature;
use bytes::Bytes;
use flyball_core::{DataType, Shape, Tensor, TensorData, TensorSpec};
use half::{bf16, f16};

/// SplitMix64: small, seeded, good enough for inputs that only have to differ.
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Seeded {
        Seeded(seed)
    }

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

/// One row of made-up input for each of the model's inputs. `spread` scales the floats: rows of different spread tell
/// whether a model scales over its batch. Free axes other than the first get `length`. Integers stay 0 or 1, which
/// every vocabulary and category has.
pub(crate) fn row(signature: &Signature, seeded: &mut Seeded, spread: f64, length: i64) -> Vec<Tensor> {
    signature.inputs.iter().map(|spec| tensor(spec, seeded, spread, length)).collect()
}

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
            (0..elements).map(|_| char::from(b'a' + (seeded.next() % 8) as u8).into()).collect(),
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
