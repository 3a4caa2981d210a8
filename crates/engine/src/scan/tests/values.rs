//! Which models have a run time that depends on input values, and which read the elements of their texts.

use super::onnx::*;
use super::scanned;
use crate::scan::values::loops;

fn wired(op: &str, input: &[&str], output: &str) -> NodeProto {
    let input = input.iter().map(|&name| name.to_owned()).collect();
    NodeProto { input, output: vec![output.to_owned()], ..node(op, "") }
}

fn constant(name: &str) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: vec![1],
        data_type: 7,
        raw_data: vec![0; 8],
        ..TensorProto::default()
    }
}

fn value(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.into(), r#type: None }
}

/// Takes `x`; `c` is a constant, which older files list among the inputs too.
fn whole(nodes: Vec<NodeProto>) -> GraphProto {
    GraphProto { initializer: vec![constant("c")], input: vec![value("x"), value("c")], ..graph(nodes) }
}

#[track_caller]
fn value_dependent(nodes: Vec<NodeProto>) -> bool {
    scanned(&model(whole(nodes))).unwrap().value_dependent
}

#[test]
fn a_size_that_is_computed_from_the_input_s_values_is_found_however_far_it_comes() {
    let size_from = |name: &str| wired("ConstantOfShape", &[name], "y");
    assert!(value_dependent(vec![size_from("x")]));
    assert!(value_dependent(vec![
        wired("Cast", &["x"], "a"),
        wired("Add", &["a", "c"], "b"),
        size_from("b")
    ]));
    assert!(value_dependent(vec![wired("RandomUniform", &[], "a"), size_from("a")]));
    // In any order, and under a name that a nested graph reuses.
    assert!(value_dependent(vec![size_from("a"), wired("Identity", &["c"], "a")]));
    let inner = GraphProto { initializer: vec![constant("x")], ..graph(vec![]) };
    let branch = AttributeProto { name: "then_branch".into(), g: Some(inner), ..AttributeProto::default() };
    let choice = NodeProto { attribute: vec![branch], ..wired("If", &["c"], "b") };
    assert!(value_dependent(vec![choice.clone(), size_from("x")]));
    assert!(value_dependent(vec![choice, size_from("b")]));
}

#[test]
fn a_size_that_shapes_or_constants_give_is_known() {
    let size_from = |name: &str| wired("ConstantOfShape", &[name], "y");
    assert!(!value_dependent(vec![size_from("c")]));
    assert!(!value_dependent(vec![
        wired("Shape", &["x"], "a"),
        wired("Concat", &["a", "c"], "b"),
        size_from("b")
    ]));
    assert!(!value_dependent(vec![wired("Constant", &[], "a"), size_from("a")]));
    assert!(!value_dependent(vec![wired("Expand", &["x", "c"], "y"), wired("Resize", &["x", "", "c"], "z")]));
    assert!(!value_dependent(vec![wired("MatMul", &["x", "c"], "a"), wired("Softmax", &["a"], "y")]));
}

#[test]
fn each_operator_s_size_is_looked_for_where_it_stands() {
    let cases = [
        ("Range", 1),
        ("Expand", 1),
        ("Tile", 1),
        ("Pad", 1),
        ("OneHot", 1),
        ("Resize", 2),
        ("Resize", 3),
        ("STFT", 3),
        ("MaxUnpool", 2),
        ("Col2Im", 1),
        ("HannWindow", 0),
        ("StringSplit", 0),
        ("CropAndResize", 3),
    ];
    for (op, place) in cases {
        let mut inputs = ["c"; 4];
        assert!(!value_dependent(vec![wired(op, &inputs, "y")]), "{op} of constants");
        inputs[place] = "x";
        assert!(value_dependent(vec![wired(op, &inputs, "y")]), "{op} by input {place}");
    }
}

#[test]
fn loops_and_sizes_in_graphs_inside_and_in_functions_count() {
    assert!(loops("Loop") && value_dependent(vec![wired("Scan", &["c"], "y")]));
    let inner = graph(vec![wired("Range", &["c", "x", "c"], "r")]);
    let branch = AttributeProto { name: "then_branch".into(), g: Some(inner), ..AttributeProto::default() };
    assert!(value_dependent(vec![NodeProto { attribute: vec![branch], ..wired("If", &["c"], "y") }]));
    // A function's parameter may have the name of a graph's constant.
    let function = FunctionProto {
        name: "f".into(),
        domain: "mine".into(),
        node: vec![wired("ConstantOfShape", &["c"], "y")],
    };
    let call = NodeProto { domain: "mine".into(), ..wired("f", &["x"], "y") };
    let calling = ModelProto { functions: vec![function], ..model(whole(vec![call])) };
    assert!(scanned(&calling).unwrap().value_dependent);
}

fn typed(name: &str, elem_type: i32) -> ValueInfoProto {
    let of = TypeProto { tensor_type: Some(TensorTypeProto { elem_type }), ..TypeProto::default() };
    ValueInfoProto { name: name.into(), r#type: Some(of) }
}

/// Takes the text `x` and the number `n`.
#[track_caller]
fn moves_texts(nodes: Vec<NodeProto>) -> bool {
    let input = vec![typed("x", 8), typed("n", 1)];
    scanned(&model(GraphProto { input, initializer: vec![constant("c")], ..graph(nodes) }))
        .unwrap()
        .moves_texts
}

#[test]
fn a_model_moves_its_texts_if_no_operator_that_they_reach_reads_them() {
    let gathered = || wired("Gather", &["x", "c"], "a");
    assert!(moves_texts(vec![gathered(), wired("Identity", &["a"], "y"), wired("Exp", &["n"], "z")]));
    assert!(moves_texts(vec![wired("Shape", &["x"], "a"), wired("Mul", &["a", "c"], "y")]));
    assert!(!moves_texts(vec![gathered(), wired("StringNormalizer", &["a"], "y")]));
    assert!(!moves_texts(vec![wired("StringNormalizer", &["a"], "y"), gathered()]), "in any order");
    let read_inside = |name: &str| {
        let inner = graph(vec![wired("StringNormalizer", &[name], "b")]);
        let branch =
            AttributeProto { name: "then_branch".into(), g: Some(inner), ..AttributeProto::default() };
        NodeProto { attribute: vec![branch], ..wired("If", &["c"], "z") }
    };
    assert!(!moves_texts(vec![gathered(), read_inside("a")]));
    assert!(!moves_texts(vec![NodeProto {
        domain: "com.microsoft".into(),
        ..wired("Identity", &["x"], "y")
    }]));
    let mine = FunctionProto {
        name: "Identity".into(),
        domain: String::new(),
        node: vec![node("StringNormalizer", "")],
    };
    let whole = whole(vec![wired("Identity", &["x"], "y")]);
    let input = vec![typed("x", 8)];
    let shadowed = ModelProto { functions: vec![mine], ..model(GraphProto { input, ..whole }) };
    assert!(!scanned(&shadowed).unwrap().moves_texts);
}
