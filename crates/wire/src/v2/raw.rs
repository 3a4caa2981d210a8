//! Raw tensors without a request, for programs that run a model themselves.
//!
//! The same checks and limits as for a request's.

use super::binary;
use super::check::{Axes, Budget, Described, check_tensor_count};
use bytes::{Bytes, BytesMut};
use flyball_core::{Fault, RequestLimits, Tensor};

/// A tensor's name, datatype and shape, and its elements in wire form.
pub type RawTensor = (String, String, Vec<i64>, Bytes);

pub fn read_raw(model: &str, given: Vec<RawTensor>, limits: &RequestLimits) -> Result<Vec<Tensor>, Fault> {
    check_tensor_count("inputs", given.len(), limits)?;
    let mut budget = Budget::of(limits, model);
    let tensor = |(name, datatype, shape, bytes): RawTensor| {
        let mut axes = Axes::default();
        shape.into_iter().for_each(|axis| axes.push(axis));
        binary::read(Described::check(name.into(), &datatype, axes, limits)?, bytes, &mut budget)
    };
    given.into_iter().map(tensor).collect()
}

pub fn write_raw(tensor: &Tensor) -> Bytes {
    let mut out = BytesMut::with_capacity(binary::size(&tensor.data));
    binary::write(&tensor.data, &mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RequestLimits = RequestLimits::for_body(1 << 10);

    fn raw(datatype: &str, shape: &[i64], bytes: &'static [u8]) -> RawTensor {
        ("x".into(), datatype.into(), shape.to_vec(), Bytes::from_static(bytes))
    }

    #[test]
    fn what_is_read_is_written_again_byte_for_byte() {
        let given = [raw("INT16", &[2, 1], &[1, 0, 2, 0]), raw("BYTES", &[2], b"\x02\0\0\0ab\0\0\0\0")];
        let tensors = read_raw("m", given.to_vec(), &LIMITS).unwrap();
        for (tensor, (_, datatype, shape, bytes)) in tensors.iter().zip(&given) {
            assert_eq!(
                (tensor.datatype.name(), tensor.shape.as_slice()),
                (datatype.as_str(), shape.as_slice())
            );
            assert_eq!(write_raw(tensor), bytes);
        }
    }

    #[test]
    fn bytes_that_do_not_fill_their_shape_or_would_exceed_the_limits_are_refused() {
        let cases = [
            (raw("FP32", &[2], &[0; 4]), "input 'x' for model 'm'. Expected 8, got 4 bytes"),
            (raw("FP33", &[1], &[0; 4]), "datatype 'FP33' is unknown"),
            (
                raw("BYTES", &[2], b"\x02\0\0\0ab"),
                "expected 2 string elements for inference input 'x' for model 'm', got 1",
            ),
            (raw("UINT8", &[1 << 20], &[]), "send fewer rows"),
        ];
        for (tensor, words) in cases {
            let fault = read_raw("m", vec![tensor], &LIMITS).unwrap_err();
            assert!(fault.text.contains(words), "{}", fault.text);
        }
    }
}
