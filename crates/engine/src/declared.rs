//! The inputs and outputs that a model's file declares, read without ONNX Runtime.
//!
//! Sufficient to compare them with other descriptions of the model. The runtime's `Signature` is
//! authoritative.

use crate::signature::datatype;
use flyball_core::DataType;
use prost::Message;
use serde::Serialize;

/// One declared input or output; none if the file does not declare it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeclaredTensor {
    pub name: String,
    pub datatype: Option<DataType>,
    /// -1 for an axis that may vary.
    pub shape: Option<Vec<i64>>,
}

pub(crate) fn tensor(value: &ValueInfoProto) -> DeclaredTensor {
    let declared = value.r#type.as_ref().and_then(|declared| declared.tensor_type.as_ref());
    let shape = declared.and_then(|tensor| tensor.shape.as_ref());
    DeclaredTensor {
        name: value.name.clone(),
        datatype: declared.and_then(|tensor| datatype(|(number, _, _)| *number == tensor.elem_type)),
        shape: shape.map(|shape| shape.dim.iter().map(|axis| axis.dim_value.unwrap_or(-1).max(-1)).collect()),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfoProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    r#type: Option<TypeProto>,
}

/// Sequences, maps and optional values are other fields: omitted here, so they are reported as unknown.
#[derive(Clone, PartialEq, Message)]
struct TypeProto {
    #[prost(message, optional, tag = "1")]
    tensor_type: Option<TensorTypeProto>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    elem_type: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<ShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
struct ShapeProto {
    #[prost(message, repeated, tag = "1")]
    dim: Vec<AxisProto>,
}

/// An axis has a size, or a name for a free one.
#[derive(Clone, PartialEq, Message)]
struct AxisProto {
    #[prost(int64, optional, tag = "1")]
    dim_value: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, tensor_type: Option<TensorTypeProto>) -> ValueInfoProto {
        ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type }) }
    }

    #[test]
    fn what_a_file_does_not_say_is_none_and_a_named_axis_varies() {
        let dim = vec![AxisProto { dim_value: None }, AxisProto { dim_value: Some(4) }];
        let whole = TensorTypeProto { elem_type: 1, shape: Some(ShapeProto { dim }) };
        let bare = TensorTypeProto { elem_type: 14, shape: None };
        let values = [value("x", Some(whole)), value("complex", Some(bare)), value("sequence", None)];
        let declared =
            |name: &str, datatype, shape| DeclaredTensor { name: name.to_owned(), datatype, shape };
        assert_eq!(
            values.each_ref().map(tensor),
            [
                declared("x", Some(DataType::Fp32), Some(vec![-1, 4])),
                declared("complex", None, None),
                declared("sequence", None, None),
            ]
        );
    }
}
