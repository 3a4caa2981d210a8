//! A model's signature in V2 terms; rejects what V2 cannot express.

use crate::Refusal;
use flyball_core::{DataType, TensorSpec};
use ort::value::{Outlet, TensorElementType, ValueType};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
}

impl Signature {
    pub(crate) fn of(session: &ort::session::Session) -> Result<Signature, Refusal> {
        let inputs = session.inputs().iter().map(|outlet| spec("input", outlet)).collect::<Result<_, _>>()?;
        let outputs =
            session.outputs().iter().map(|outlet| spec("output", outlet)).collect::<Result<_, _>>()?;
        Ok(Signature { inputs, outputs })
    }

    /// Whether rows may differ in shape.
    pub(crate) fn has_free_axes(&self) -> bool {
        self.inputs.iter().any(|spec| spec.shape.iter().skip(1).any(|&axis| axis == -1))
    }

    /// Why this signature allows no batch; `None` if every tensor has a free first axis.
    ///
    /// Outputs are checked by the probe instead: converters often declare them wrongly.
    pub fn no_batch_axis(&self) -> Option<String> {
        let fixed = |spec: &&TensorSpec| spec.shape.first() != Some(&-1);
        let spec = self.inputs.iter().find(fixed)?;
        Some(match spec.shape.first() {
            Some(size) => format!("input '{}' has a fixed first axis of {size}", spec.name),
            None => format!("input '{}' is a scalar", spec.name),
        })
    }
}

fn spec(role: &'static str, outlet: &Outlet) -> Result<TensorSpec, Refusal> {
    let name = outlet.name().to_owned();
    let refuse = |advice| {
        let found = outlet.dtype().to_string();
        Err(Refusal::UnsupportedType { role, name: outlet.name().to_owned(), found, advice })
    };
    match outlet.dtype() {
        ValueType::Tensor { ty, shape, .. } => match datatype(|(_, theirs, _)| theirs == ty) {
            Some(datatype) => {
                Ok(TensorSpec { name, datatype, shape: shape.iter().map(|&axis| axis.max(-1)).collect() })
            }
            None => refuse("cast it inside the model to a type of the V2 protocol"),
        },
        ValueType::Sequence(of) if of.is_map() => Err(Refusal::ZipMap(name)),
        ValueType::Map { .. } => Err(Refusal::ZipMap(name)),
        ValueType::Sequence(_) | ValueType::Optional(_) => refuse("export the model with plain tensors"),
    }
}

/// An element type: its number in ONNX's `TensorProto.DataType`, ONNX Runtime's name, and V2's.
type ElementType = (i32, TensorElementType, DataType);

const ELEMENT_TYPES: [ElementType; 14] = [
    (1, TensorElementType::Float32, DataType::Fp32),
    (2, TensorElementType::Uint8, DataType::Uint8),
    (3, TensorElementType::Int8, DataType::Int8),
    (4, TensorElementType::Uint16, DataType::Uint16),
    (5, TensorElementType::Int16, DataType::Int16),
    (6, TensorElementType::Int32, DataType::Int32),
    (7, TensorElementType::Int64, DataType::Int64),
    (8, TensorElementType::String, DataType::Bytes),
    (9, TensorElementType::Bool, DataType::Bool),
    (10, TensorElementType::Float16, DataType::Fp16),
    (11, TensorElementType::Float64, DataType::Fp64),
    (12, TensorElementType::Uint32, DataType::Uint32),
    (13, TensorElementType::Uint64, DataType::Uint64),
    (16, TensorElementType::Bfloat16, DataType::Bf16),
];

/// V2's type of the element type that `is` selects; none if V2 does not have it.
pub(crate) fn datatype(is: impl Fn(&ElementType) -> bool) -> Option<DataType> {
    ELEMENT_TYPES.iter().find(|known| is(known)).map(|&(_, _, datatype)| datatype)
}
