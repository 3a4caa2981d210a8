//! One small ONNX model, written with only the fields that it needs.

use prost::Message;

const FLOAT: i32 = 1;
pub(crate) const COLUMNS: i64 = 4;

/// Two inputs `a` and `b` of four columns; their sum `y` and their product `z`.
pub(crate) fn sums() -> Vec<u8> {
    let graph = Graph {
        name: "sums".into(),
        node: vec![node("Add", "y"), node("Mul", "z")],
        input: vec![value("a"), value("b")],
        output: vec![value("y"), value("z")],
    };
    let opset_import = vec![Opset { domain: String::new(), version: 17 }];
    Model { ir_version: 8, graph: Some(graph), opset_import }.encode_to_vec()
}

fn node(op_type: &str, output: &str) -> Node {
    Node { input: vec!["a".into(), "b".into()], output: vec![output.into()], op_type: op_type.into() }
}

fn value(name: &str) -> Value {
    let rows = Axis { size: None, name: Some("n".into()) };
    let columns = Axis { size: Some(COLUMNS), name: None };
    let shape = Some(Axes { dim: vec![rows, columns] });
    let r#type = Some(Type { tensor_type: Some(TensorType { elem_type: FLOAT, shape }) });
    Value { name: name.into(), r#type }
}

#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(int64, tag = "1")]
    ir_version: i64,
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<Opset>,
}

#[derive(Clone, PartialEq, Message)]
struct Opset {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(int64, tag = "2")]
    version: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    node: Vec<Node>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "11")]
    input: Vec<Value>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, tag = "4")]
    op_type: String,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    r#type: Option<Type>,
}

#[derive(Clone, PartialEq, Message)]
struct Type {
    #[prost(message, optional, tag = "1")]
    tensor_type: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorType {
    #[prost(int32, tag = "1")]
    elem_type: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Axes>,
}

#[derive(Clone, PartialEq, Message)]
struct Axes {
    #[prost(message, repeated, tag = "1")]
    dim: Vec<Axis>,
}

#[derive(Clone, PartialEq, Message)]
struct Axis {
    #[prost(int64, optional, tag = "1")]
    size: Option<i64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}
