//! The ONNX messages that these tests write.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelProto {
    #[prost(int64, tag = "1")]
    pub(super) ir_version: i64,
    #[prost(string, tag = "2")]
    pub(super) producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "14")]
    pub(super) metadata_props: Vec<Entry>,
    #[prost(bytes, optional, tag = "20")]
    pub(super) training_info: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "25")]
    pub(super) functions: Vec<FunctionProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSetIdProto {
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    #[prost(int64, tag = "2")]
    pub(super) version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FunctionProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "7")]
    pub(super) node: Vec<NodeProto>,
    #[prost(string, tag = "10")]
    pub(super) domain: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<NodeProto>,
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(super) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(super) output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "15")]
    pub(super) sparse_initializer: Vec<SparseTensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) name: String,
    #[prost(string, tag = "4")]
    pub(super) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<AttributeProto>,
    #[prost(string, tag = "7")]
    pub(super) domain: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(bytes, tag = "4")]
    pub(super) s: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    pub(super) t: Option<TensorProto>,
    #[prost(message, optional, tag = "6")]
    pub(super) g: Option<GraphProto>,
    #[prost(message, repeated, tag = "10")]
    pub(super) tensors: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub(super) graphs: Vec<GraphProto>,
    #[prost(message, optional, tag = "14")]
    pub(super) tp: Option<TypeProto>,
    #[prost(message, optional, tag = "22")]
    pub(super) sparse_tensor: Option<SparseTensorProto>,
    #[prost(message, repeated, tag = "23")]
    pub(super) sparse_tensors: Vec<SparseTensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SparseTensorProto {
    #[prost(message, optional, tag = "1")]
    pub(super) values: Option<TensorProto>,
    #[prost(message, optional, tag = "2")]
    pub(super) indices: Option<TensorProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(super) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(super) data_type: i32,
    #[prost(string, tag = "8")]
    pub(super) name: String,
    #[prost(bytes, tag = "9")]
    pub(super) raw_data: Vec<u8>,
    #[prost(message, repeated, tag = "13")]
    pub(super) external_data: Vec<Entry>,
    #[prost(int32, tag = "14")]
    pub(super) data_location: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) r#type: Option<TypeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(super) tensor_type: Option<TensorTypeProto>,
    #[prost(message, optional, boxed, tag = "4")]
    pub(super) sequence_type: Option<Box<SequenceProto>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    pub(super) elem_type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SequenceProto {
    #[prost(message, optional, boxed, tag = "1")]
    pub(super) elem_type: Option<Box<TypeProto>>,
}

pub(super) fn entry(key: &str, value: &str) -> Entry {
    Entry { key: key.into(), value: value.into() }
}

pub(super) fn node(op: &str, domain: &str) -> NodeProto {
    NodeProto { name: format!("the_{op}"), op_type: op.into(), domain: domain.into(), ..NodeProto::default() }
}

pub(super) fn graph(nodes: Vec<NodeProto>) -> GraphProto {
    GraphProto { node: nodes, ..GraphProto::default() }
}

pub(super) fn model(graph: GraphProto) -> ModelProto {
    ModelProto { ir_version: 8, graph: Some(graph), ..ModelProto::default() }
}

/// A node with an attribute, in a model of its own.
pub(super) fn with_attribute(attribute: AttributeProto) -> ModelProto {
    model(graph(vec![NodeProto { attribute: vec![attribute], ..node("Loop", "") }]))
}

pub(super) fn with_weights(tensor: TensorProto) -> ModelProto {
    model(GraphProto { initializer: vec![tensor], ..graph(vec![node("Add", "")]) })
}

/// Eight floats of an external file, or the given entries.
pub(super) fn external(entries: &[(&str, &str)]) -> TensorProto {
    let external_data = entries.iter().map(|(key, value)| entry(key, value)).collect();
    TensorProto {
        dims: vec![2, 4],
        data_type: 1,
        name: "w".into(),
        external_data,
        data_location: 1,
        ..TensorProto::default()
    }
}
