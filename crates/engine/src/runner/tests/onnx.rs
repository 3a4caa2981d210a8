//! Small ONNX models, written with only the fields that they need.

use flyball_core::DataType;
use prost::Message;

pub(crate) const FLOAT: i32 = 1;
const INT64: i32 = 7;
pub(crate) const STRING: i32 = 8;
const BOOL: i32 = 9;

/// `TensorProto.DataType` of each V2 datatype.
pub(crate) const ELEMENT_TYPES: [(DataType, i32); 14] = [
    (DataType::Fp32, FLOAT),
    (DataType::Uint8, 2),
    (DataType::Int8, 3),
    (DataType::Uint16, 4),
    (DataType::Int16, 5),
    (DataType::Int32, 6),
    (DataType::Int64, INT64),
    (DataType::Bytes, STRING),
    (DataType::Bool, BOOL),
    (DataType::Fp16, 10),
    (DataType::Fp64, 11),
    (DataType::Uint32, 12),
    (DataType::Uint64, 13),
    (DataType::Bf16, 16),
];

/// `y = x`, of one free axis.
pub(crate) fn identity(element_type: i32) -> Vec<u8> {
    model(Graph {
        name: "identity".into(),
        node: vec![node("Identity", &["x"], &["y"])],
        input: vec![value("x", element_type, &[-1])],
        output: vec![value("y", element_type, &[-1])],
        ..Graph::default()
    })
}

/// `y = x / -1`, of one free axis.
pub(crate) fn divided() -> Vec<u8> {
    let divisor = TensorValue {
        data_type: INT64,
        int64_data: vec![-1],
        name: "divisor".into(),
        ..TensorValue::default()
    };
    model(Graph {
        name: "divided".into(),
        node: vec![node("Div", &["x", "divisor"], &["y"])],
        initializer: vec![divisor],
        input: vec![value("x", INT64, &[-1])],
        output: vec![value("y", INT64, &[-1])],
    })
}

/// `y` is the sum of each row of `x`; -1 is any width.
pub(crate) fn row_sum(width: i64) -> Vec<u8> {
    let axis = TensorValue {
        dims: vec![1],
        data_type: INT64,
        int64_data: vec![1],
        name: "axis".into(),
        ..TensorValue::default()
    };
    model(Graph {
        name: "row_sum".into(),
        node: vec![node("ReduceSum", &["x", "axis"], &["y"])],
        initializer: vec![axis],
        input: vec![value("x", FLOAT, &[-1, width])],
        output: vec![value("y", FLOAT, &[-1, 1])],
    })
}

/// `y = -x`, of rows of any width.
pub(crate) fn negated() -> Vec<u8> {
    model(Graph {
        name: "negated".into(),
        node: vec![node("Neg", &["x"], &["y"])],
        input: vec![value("x", FLOAT, &[-1, -1])],
        output: vec![value("y", FLOAT, &[-1, -1])],
        ..Graph::default()
    })
}

/// `y = x + 1 1 1 1`: its rows declare any width, but only four or one work.
pub(crate) fn of_hidden_width() -> Vec<u8> {
    let ones = TensorValue {
        dims: vec![4],
        data_type: FLOAT,
        float_data: vec![1.0; 4],
        name: "ones".into(),
        ..TensorValue::default()
    };
    model(Graph {
        name: "of_hidden_width".into(),
        node: vec![node("Add", &["x", "ones"], &["y"])],
        initializer: vec![ones],
        input: vec![value("x", FLOAT, &[-1, -1])],
        output: vec![value("y", FLOAT, &[-1, -1])],
    })
}

/// `y = 1 + 1 + …`, as many times as the scalar `x`.
pub(crate) fn looped() -> Vec<u8> {
    let input = vec![value("x", INT64, &[])];
    counting("x", Vec::new(), input)
}

/// The same without end, whatever `x` is.
pub(crate) fn endless() -> Vec<u8> {
    let trips = TensorValue {
        data_type: INT64,
        int64_data: vec![i64::MAX],
        name: "trips".into(),
        ..TensorValue::default()
    };
    counting("trips", vec![trips], vec![value("x", INT64, &[])])
}

/// `y` has `x` elements: of sample rows none or one, of others as much memory as there is.
pub(crate) fn range() -> Vec<u8> {
    let whole = |name: &str, value: i64| TensorValue {
        data_type: INT64,
        int64_data: vec![value],
        name: name.into(),
        ..TensorValue::default()
    };
    model(Graph {
        name: "range".into(),
        node: vec![node("Range", &["nought", "x", "one"], &["y"])],
        initializer: vec![whole("nought", 0), whole("one", 1)],
        input: vec![value("x", INT64, &[])],
        output: vec![value("y", INT64, &[-1])],
    })
}

/// `y = x + 0 + …`: a sum over two gigabytes of zeros, made while the model is loaded or run.
pub(crate) fn huge() -> Vec<u8> {
    let shape = TensorValue {
        dims: vec![1],
        data_type: INT64,
        int64_data: vec![1 << 29],
        name: "shape".into(),
        ..TensorValue::default()
    };
    model(Graph {
        name: "huge".into(),
        node: vec![
            node("ConstantOfShape", &["shape"], &["noughts"]),
            node("ReduceSum", &["noughts"], &["nought"]),
            node("Add", &["x", "nought"], &["y"]),
        ],
        initializer: vec![shape],
        input: vec![value("x", FLOAT, &[1])],
        output: vec![value("y", FLOAT, &[1])],
    })
}

fn counting(trips: &str, mut initializer: Vec<TensorValue>, input: Vec<Value>) -> Vec<u8> {
    let float = |name: &str, value: f32| TensorValue {
        data_type: FLOAT,
        float_data: vec![value],
        name: name.into(),
        ..TensorValue::default()
    };
    let body = Graph {
        name: "body".into(),
        node: vec![node("Identity", &["go_on"], &["still"]), node("Add", &["before", "one"], &["after"])],
        initializer: vec![float("one", 1.0)],
        input: vec![value("trip", INT64, &[]), value("go_on", BOOL, &[]), value("before", FLOAT, &[])],
        output: vec![value("still", BOOL, &[]), value("after", FLOAT, &[])],
    };
    let attribute = Attribute { name: "body".into(), g: Some(body), r#type: 5 };
    initializer.push(float("zero", 0.0));
    model(Graph {
        name: "looped".into(),
        node: vec![Node { attribute: vec![attribute], ..node("Loop", &[trips, "", "zero"], &["y"]) }],
        initializer,
        input,
        output: vec![value("y", FLOAT, &[])],
    })
}

/// `y` is `x` zeros.
pub(crate) fn grown() -> Vec<u8> {
    model(Graph {
        name: "grown".into(),
        node: vec![node("ConstantOfShape", &["x"], &["y"])],
        input: vec![value("x", INT64, &[1])],
        output: vec![value("y", FLOAT, &[-1])],
        ..Graph::default()
    })
}

fn model(graph: Graph) -> Vec<u8> {
    let opset_import = vec![Opset { domain: String::new(), version: 17 }];
    Model { ir_version: 8, graph: Some(graph), opset_import }.encode_to_vec()
}

fn node(op_type: &str, input: &[&str], output: &[&str]) -> Node {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Node { input: names(input), output: names(output), op_type: op_type.into(), attribute: Vec::new() }
}

fn value(name: &str, elem_type: i32, shape: &[i64]) -> Value {
    let axis = |(place, &size): (usize, &i64)| match size {
        -1 => Axis { size: None, name: Some(format!("n{place}")) },
        size => Axis { size: Some(size), name: None },
    };
    let shape = Some(Axes { dim: shape.iter().enumerate().map(axis).collect() });
    let r#type = Some(Type { tensor_type: Some(TensorType { elem_type, shape }) });
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
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<TensorValue>,
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
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "6")]
    g: Option<Graph>,
    #[prost(int32, tag = "20")]
    r#type: i32,
}

#[derive(Clone, PartialEq, Message)]
struct TensorValue {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(float, repeated, tag = "4")]
    float_data: Vec<f32>,
    #[prost(int64, repeated, tag = "7")]
    int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    name: String,
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
