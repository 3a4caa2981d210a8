//! Tensors between the wire and the engine: V2 datatypes, little-endian row-major bytes.
//!
//! Nothing here knows how JSON or protobuf encodes a tensor, nor how ONNX Runtime stores it.

use bytes::Bytes;
use bytestring::ByteString;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A concrete shape. Four axes stay off the heap, which covers tabular, text and image models.
pub type Shape = SmallVec<[i64; 4]>;

crate::labelled! {
    /// The element types of the Open Inference Protocol V2 (and Triton's BF16), under their names there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    pub enum DataType {
        Bool => "BOOL",
        Uint8 => "UINT8",
        Uint16 => "UINT16",
        Uint32 => "UINT32",
        Uint64 => "UINT64",
        Int8 => "INT8",
        Int16 => "INT16",
        Int32 => "INT32",
        Int64 => "INT64",
        Fp16 => "FP16",
        Bf16 => "BF16",
        Fp32 => "FP32",
        Fp64 => "FP64",
        Bytes => "BYTES",
    }
}

impl DataType {
    /// The datatype's name in the protocol.
    pub const fn name(self) -> &'static str {
        self.label()
    }

    /// Bytes of one element; `None` for BYTES, whose elements vary.
    pub const fn size(self) -> Option<usize> {
        match self {
            DataType::Bool | DataType::Uint8 | DataType::Int8 => Some(1),
            DataType::Uint16 | DataType::Int16 | DataType::Fp16 | DataType::Bf16 => Some(2),
            DataType::Uint32 | DataType::Int32 | DataType::Fp32 => Some(4),
            DataType::Uint64 | DataType::Int64 | DataType::Fp64 => Some(8),
            DataType::Bytes => None,
        }
    }
}

/// The elements of a tensor.
///
/// Fixed-size elements are little-endian bytes, row-major, without padding. A BOOL byte is 0 or 1: the
/// parsers enforce it, the engine relies on it. Strings are UTF-8, unless the model only moves them: the tensor
/// stage checks it.
#[derive(Clone, Debug, PartialEq)]
pub enum TensorData {
    Fixed(Bytes),
    Strings(Vec<Bytes>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// A slice of the request's message, or shared with the model's signature.
    pub name: ByteString,
    pub datatype: DataType,
    pub shape: Shape,
    pub data: TensorData,
}

impl Tensor {
    /// The number of elements of a shape; `None` if an axis is negative or the product overflows.
    pub fn elements(shape: &[i64]) -> Option<usize> {
        shape.iter().try_fold(1_usize, |product, &axis| product.checked_mul(usize::try_from(axis).ok()?))
    }

    /// The number of elements; zero if the shape is invalid.
    pub fn size(&self) -> usize {
        Tensor::elements(&self.shape).unwrap_or(0)
    }

    /// Rows along the first axis; a scalar counts as one row.
    pub fn rows(&self) -> usize {
        self.shape.first().map_or(1, |&axis| usize::try_from(axis).unwrap_or(0))
    }
}

/// A model's input or output. `-1` marks a free axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSpec {
    pub name: String,
    pub datatype: DataType,
    pub shape: Vec<i64>,
}

impl TensorSpec {
    pub fn admits(&self, shape: &[i64]) -> bool {
        admits(&self.shape, shape)
    }
}

/// Whether a shape, which may have free axes itself, is one of those that `wanted` allows.
pub fn admits(wanted: &[i64], shape: &[i64]) -> bool {
    wanted.len() == shape.len() && wanted.iter().zip(shape).all(|(&wanted, &is)| wanted == -1 || wanted == is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_with_a_negative_axis_or_an_overflow_has_no_element_count() {
        assert_eq!(Tensor::elements(&[2, 3]), Some(6));
        assert_eq!(Tensor::elements(&[]), Some(1));
        assert_eq!(Tensor::elements(&[-1, 3]), None);
        assert_eq!(Tensor::elements(&[i64::MAX, 3]), None);
    }

    #[test]
    fn datatype_names_round_trip() {
        for datatype in DataType::ALL {
            assert_eq!(DataType::from_label(datatype.name()), Some(datatype));
        }
        assert_eq!(DataType::from_label("fp32"), None);
    }

    #[test]
    fn a_free_axis_admits_any_size_and_a_fixed_one_only_its_own() {
        let spec = TensorSpec { name: "x".into(), datatype: DataType::Fp32, shape: vec![-1, 3] };
        assert!(spec.admits(&[7, 3]));
        assert!(!spec.admits(&[7, 4]));
        assert!(!spec.admits(&[3]));
    }
}
