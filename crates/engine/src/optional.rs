//! Turns constants of a model into inputs with a default, which clients may leave out.
//!
//! ONNX lists such a constant among the graph's inputs and its initialisers. Without the initialiser it is an ordinary
//! input, for the probe and for all runs; its elements become the default. Must not know requests.

use crate::Refusal;
use crate::signature::datatype;
use bytes::{BufMut, Bytes};
use flyball_core::{DataType, Shape, Tensor, TensorData};
use prost::Message;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

/// Maximum bytes of one default; larger constants are weights.
const BYTES_MAX: usize = 1 << 20;
const GRAPH: u32 = 7;
const INITIALISER: u32 = 5;

#[derive(Clone, PartialEq, Message)]
struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(float, repeated, tag = "4")]
    float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    int32_data: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    string_data: Vec<Bytes>,
    #[prost(int64, repeated, tag = "7")]
    int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "bytes", tag = "9")]
    raw_data: Bytes,
    #[prost(double, repeated, tag = "10")]
    double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    uint64_data: Vec<u64>,
}

/// The model without the initialisers of these names, and their elements in the same order.
pub(crate) fn take(model: Vec<u8>, names: &[String]) -> Result<(Vec<u8>, Vec<Tensor>), Refusal> {
    if names.is_empty() {
        return Ok((model, Vec::new()));
    }
    let mut found = vec![None; names.len()];
    let mut taken = |piece: &[u8]| -> Result<bool, Refusal> {
        let Some(place) = names.iter().position(|name| named(piece).as_deref() == Some(name)) else {
            return Ok(false);
        };
        found[place] = Some(tensor(piece).ok_or_else(|| refused(&names[place], "cannot be read"))?);
        Ok(true)
    };
    let without = edited(&model, |number, piece| {
        Ok(match number {
            GRAPH => Some(edited(piece, |number, piece| {
                Ok((number != INITIALISER || !taken(piece)?).then(|| piece.to_vec()))
            })?),
            _ => Some(piece.to_vec()),
        })
    })?;
    let each = names.iter().zip(found);
    let defaults = each.map(|(name, tensor)| tensor.ok_or_else(|| refused(name, "does not exist")));
    Ok((without, defaults.collect::<Result<_, _>>()?))
}

fn refused(name: &str, why: &str) -> Refusal {
    Refusal::Default(format!("the constant of optional input '{name}' {why}"))
}

/// The message with each of its pieces replaced, or left out where `edit` gives none.
fn edited(
    message: &[u8],
    mut edit: impl FnMut(u32, &[u8]) -> Result<Option<Vec<u8>>, Refusal>,
) -> Result<Vec<u8>, Refusal> {
    let broken = || Refusal::Default("the model's file cannot be edited: its protobuf is broken".to_owned());
    let mut out = Vec::with_capacity(message.len());
    let mut rest = message;
    while !rest.is_empty() {
        let start = rest;
        let (number, kind) = decode_key(&mut rest).map_err(|_| broken())?;
        if kind == WireType::LengthDelimited {
            let length = decode_varint(&mut rest).ok().and_then(|length| usize::try_from(length).ok());
            let (piece, after) = rest.split_at_checked(length.ok_or_else(broken)?).ok_or_else(broken)?;
            rest = after;
            if let Some(piece) = edit(number, piece)? {
                encode_key(number, kind, &mut out);
                encode_varint(piece.len() as u64, &mut out);
                out.put_slice(&piece);
            }
        } else {
            skip_field(kind, number, &mut rest, DecodeContext::default()).map_err(|_| broken())?;
            out.put_slice(&start[..start.len() - rest.len()]);
        }
    }
    Ok(out)
}

/// The name of a tensor, without decoding its elements.
fn named(tensor: &[u8]) -> Option<String> {
    #[derive(Clone, PartialEq, Message)]
    struct Named {
        #[prost(string, tag = "8")]
        name: String,
    }
    Named::decode(tensor).ok().map(|named| named.name)
}

/// None for types that the protocol lacks, for weights in other files, and for large tensors.
fn tensor(piece: &[u8]) -> Option<Tensor> {
    if piece.len() > BYTES_MAX {
        return None;
    }
    let proto = TensorProto::decode(piece).ok()?;
    let datatype = datatype(|(number, _, _)| *number == proto.data_type)?;
    let shape: Shape = proto.dims.iter().copied().collect();
    let elements = Tensor::elements(&shape)?;
    let data = match datatype.size() {
        None => TensorData::Strings(proto.string_data.clone()),
        Some(_) if !proto.raw_data.is_empty() => TensorData::Fixed(proto.raw_data.clone()),
        Some(size) => TensorData::Fixed(typed(&proto, datatype, size).into()),
    };
    let whole = match &data {
        TensorData::Strings(strings) => strings.len() == elements,
        TensorData::Fixed(bytes) => {
            Some(bytes.len()) == datatype.size().and_then(|size| size.checked_mul(elements))
        }
    };
    // The engine relies on this.
    let boolean = datatype != DataType::Bool
        || matches!(&data, TensorData::Fixed(bytes) if bytes.iter().all(|&byte| byte <= 1));
    (whole && boolean).then(|| Tensor { name: proto.name.into(), datatype, shape, data })
}

/// Elements in the typed lists, which older exporters write.
fn typed(proto: &TensorProto, datatype: DataType, size: usize) -> Vec<u8> {
    // Little-endian numbers start with their low bytes.
    let low = |bytes: [u8; 8]| bytes.into_iter().take(size);
    match datatype {
        DataType::Fp32 => proto.float_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::Fp64 => proto.double_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::Int64 => proto.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::Uint32 | DataType::Uint64 => {
            proto.uint64_data.iter().flat_map(|value| low(value.to_le_bytes())).collect()
        }
        _ => proto.int32_data.iter().flat_map(|&value| low(i64::from(value).to_le_bytes())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Message)]
    struct GraphProto {
        #[prost(string, tag = "2")]
        name: String,
        #[prost(message, repeated, tag = "5")]
        initializer: Vec<TensorProto>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct ModelProto {
        #[prost(int64, tag = "1")]
        ir_version: i64,
        #[prost(message, optional, tag = "7")]
        graph: Option<GraphProto>,
    }

    fn constant(name: &str, data_type: i32, dims: &[i64]) -> TensorProto {
        TensorProto { name: name.into(), data_type, dims: dims.to_vec(), ..TensorProto::default() }
    }

    fn model(initializer: Vec<TensorProto>) -> Vec<u8> {
        let graph = GraphProto { name: "g".into(), initializer };
        ModelProto { ir_version: 8, graph: Some(graph) }.encode_to_vec()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_constant_becomes_a_default_and_nothing_else_changes() {
        let scale = TensorProto { float_data: vec![1.5, -2.0], ..constant("scale", 1, &[2]) };
        let flag = TensorProto { raw_data: vec![1].into(), ..constant("flag", 9, &[1]) };
        let half = TensorProto { int32_data: vec![15360], ..constant("half", 10, &[]) };
        let text = TensorProto { string_data: vec!["né".into()], ..constant("text", 8, &[1]) };
        let kept = TensorProto { float_data: vec![7.0], ..constant("weight", 1, &[1]) };
        let all = vec![scale, kept.clone(), flag, half, text];
        let (without, defaults) = take(model(all), &names(&["text", "scale", "flag", "half"])).unwrap();
        assert_eq!(without, model(vec![kept]));
        let fixed = |bytes: &[u8]| TensorData::Fixed(Bytes::copy_from_slice(bytes));
        let scale = [1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat();
        let data: Vec<_> = defaults.iter().map(|default| (&*default.name, default.data.clone())).collect();
        assert_eq!(
            data,
            [
                ("text", TensorData::Strings(vec!["né".into()])),
                ("scale", fixed(&scale)),
                ("flag", fixed(&[1])),
                ("half", fixed(&[0, 60])),
            ]
        );
    }

    #[test]
    fn a_default_that_cannot_be_taken_refuses_the_model() {
        let short = TensorProto { float_data: vec![1.0], ..constant("short", 1, &[2]) };
        let odd = TensorProto { raw_data: vec![2].into(), ..constant("odd", 9, &[1]) };
        let complex = constant("complex", 14, &[0]);
        let huge = TensorProto { raw_data: vec![0; BYTES_MAX].into(), ..constant("huge", 2, &[1 << 20]) };
        let given = model(vec![short, odd, complex, huge]);
        for name in ["short", "odd", "complex", "huge"] {
            let refusal = take(given.clone(), &names(&[name])).unwrap_err().to_string();
            assert!(refusal.contains(&format!("optional input '{name}' cannot be read")), "{refusal}");
        }
        let refusal = take(given, &names(&["none"])).unwrap_err().to_string();
        assert!(refusal.contains("'none' does not exist"), "{refusal}");
        assert!(take(vec![0xff], &names(&["none"])).is_err());
    }

    #[test]
    fn a_model_without_optional_inputs_is_not_touched() {
        assert_eq!(take(vec![0xff, 1], &[]).unwrap(), (vec![0xff, 1], vec![]));
    }
}
