//! A decision that uses every part of the document, and its models.

use crate::{DecisionDocument, ModelFacts, Program, Rows, Scores, Scratch};
use flyball_core::snapshot::SnapshotFaults;
use flyball_core::{DataType, RowSink, Scalar, TensorSpec};
use serde_json::{Value as Json, json};

pub(super) fn document() -> Json {
    json!({
        "owner": "risk", "purpose": "stop stolen cards",
        "input": [
            {"name": "card", "type": "string", "length_max": 32, "key": true, "pii": true},
            {"name": "amount", "type": "float", "min": 0.0, "max": 10_000.0},
            {"name": "items", "type": "int", "required": false, "default": 1},
            {"name": "country", "type": "category", "values": ["CH", "DE", "FR"], "unknown": "other"},
            {"name": "channel", "type": "category", "values": ["web", "shop"], "required": false},
            {"name": "online", "type": "bool", "required": false},
            {"name": "at", "type": "time", "required": false},
        ],
        "features": [
            {"name": "spent", "type": "float", "on_missing": {"value": 0},
             "window": {"op": "sum", "of": "amount", "by": "card", "last_ms": 3_600_000}},
            {"name": "tier", "type": "category", "values": ["gold", "tin"], "max_age_ms": 1000, "on_error": "fault",
             "lookup": {"source": "cards", "key": "card", "field": "tier"}},
            {"name": "dear", "type": "bool", "compute": "amount > 100.0"},
        ],
        "sources": {"cards": {"kind": "redis", "url": "redis://cards", "set": "cards", "timeout_ms": 5}},
        "event_time": "at",
        "transforms": [
            {"op": "impute", "of": ["items", "channel"], "values": [1, "web"], "indicator": true},
            {"op": "log1p", "of": ["amount"]},
            {"op": "standardize", "of": ["amount"], "mean": [3.0], "scale": [2.0]},
            {"op": "date_parts", "of": ["at"], "parts": ["hour", "weekday"]},
            {"op": "one_hot", "of": ["country"], "values": [["CH", "FR"]]},
            {"op": "ordinal", "of": ["channel"], "values": [["shop", "web"]], "unknown": -1.0},
            {"op": "cross", "of": ["amount", "items"], "into": "amount_items"},
        ],
        "models": [
            {"name": "first", "version": "1",
             "inputs": [{"tensor": "x", "columns": ["amount", "country=CH", "country=FR", "at.hour"]}],
             "score": {"output": "p", "element": 1}},
            {"name": "second", "version": "2",
             "inputs": [{"tensor": "x", "columns": ["first.score", "spent", "amount_items"]},
                        {"tensor": "n", "columns": ["channel"]},
                        {"tensor": "words", "columns": ["tier"]}],
             "score": {"output": "p"}, "explain": {"by": "linear", "coefficients": [1.0, 2.0, 3.0, 4.0, 5.0],
             "means": [0.0, 0.0, 0.0, 0.0, 0.0]}},
        ],
        "variants": [
            {"name": "champion", "models": ["first"], "weights": {"first": 1.0}},
            {"name": "both", "models": ["first", "second"], "weights": {"first": 0.25, "second": 0.75}},
        ],
        "route": {"split": {"both": 0.25}, "sticky": "card", "fallback": "both"},
        "policy": {
            "outcomes": ["pass", "review", "reject"], "adverse": ["reject"],
            "guards": [{"of": "score", "min": 0.0, "max": 1.0}],
            "rules": [{"when": "dear && country == 'FR'", "then": "review", "reason": "FAR"}],
            "bands": [{"name": "pass", "to": 0.5}, {"name": "reject", "from": 0.5}],
        },
        "remedies": {"model_unavailable": "previous", "timeout": {"outcome": "review"}, "queue_full": "shed"},
    })
}

fn spec(name: &str, datatype: DataType, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: name.to_owned(), datatype, shape: shape.to_vec() }
}

pub(super) fn compile(document: &Json) -> Result<Program, SnapshotFaults> {
    let document = DecisionDocument::read(document).map_err(|fault| SnapshotFaults(vec![fault]))?;
    let first = [spec("x", DataType::Fp32, &[-1, 4])];
    let second = [
        spec("x", DataType::Fp32, &[-1, 3]),
        spec("n", DataType::Int64, &[-1]),
        spec("words", DataType::Bytes, &[-1, 1]),
    ];
    let outputs = [spec("label", DataType::Int64, &[1]), spec("p", DataType::Fp32, &[1, 2])];
    let models = [
        ModelFacts { version: "1", inputs: &first, outputs: &outputs, explain: None },
        ModelFacts { version: "2", inputs: &second, outputs: &outputs, explain: None },
    ];
    Program::compile(&document, &models)
}

pub(super) fn good() -> Program {
    compile(&document()).expect("the good document compiles")
}

/// The path of each fault.
pub(super) fn paths(document: &Json) -> Vec<String> {
    match compile(document) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.0.into_iter().map(|fault| fault.path).collect(),
    }
}

/// The good document with the value at a pointer replaced; null removes it.
pub(super) fn with(pointer: &str, value: Json) -> Json {
    let mut document = document();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = document.pointer_mut(parent).expect("the pointer's parent");
    match parent {
        Json::Object(map) if value.is_null() => _ = map.remove(key),
        Json::Object(map) => _ = map.insert(key.to_owned(), value),
        Json::Array(list) if key == "-" => list.push(value),
        Json::Array(list) => list[key.parse::<usize>().expect("an index")] = value,
        other => panic!("{other} has no keys"),
    }
    document
}

/// One row of these fields.
pub(super) fn row(program: &Program, rows: &mut Rows, fields: &[(&str, Scalar<'_>)]) {
    program.begin(rows);
    let mut reader = program.reader(rows);
    reader.row(None);
    fields.iter().for_each(|(name, value)| reader.field(name, *value));
    reader.finish();
}

/// A decision whose only model takes these columns as FP64, after these transforms.
pub(super) fn columns_program(
    input: &Json,
    transforms: &Json,
    columns: &[&str],
) -> Result<Program, SnapshotFaults> {
    let mut document = document();
    document["input"] = input.clone();
    document["transforms"] = transforms.clone();
    for key in ["features", "sources", "event_time", "route", "remedies"] {
        document.as_object_mut().expect("an object").remove(key);
    }
    document["policy"]["rules"] = json!([]);
    document["models"] = json!([{"name": "only", "version": "1", "score": {"output": "p"},
                                 "inputs": [{"tensor": "x", "columns": columns}]}]);
    document["variants"] = json!([{"name": "only", "models": ["only"], "weights": {"only": 1.0}}]);
    let document = DecisionDocument::read(&document).map_err(|fault| SnapshotFaults(vec![fault]))?;
    let inputs = [spec("x", DataType::Fp64, &[-1, columns.len() as i64])];
    let outputs = [spec("p", DataType::Fp64, &[-1])];
    let facts = ModelFacts { version: "1", inputs: &inputs, outputs: &outputs, explain: None };
    Program::compile(&document, &[facts])
}

/// The columns of one row.
pub(super) fn columns_of(program: &Program, fields: &[(&str, Scalar<'_>)]) -> Vec<f64> {
    let (mut rows, mut scores, mut scratch) = (Rows::default(), Scores::default(), Scratch::default());
    row(program, &mut rows, fields);
    assert!(rows.sound(0), "{:?}", rows.faults(0).collect::<Vec<_>>());
    program.begin_scores(&rows, &mut scores);
    let mut out = Vec::new();
    program.columns(0, &rows, 0, &scores, &mut scratch, &mut out);
    out
}
