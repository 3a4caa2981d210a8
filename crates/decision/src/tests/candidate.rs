//! A candidate added to the decision that it may replace.

use super::good::{document, with};
use crate::{CANDIDATE, DecisionDocument, ModelFacts, Program, Rows};
use flyball_core::snapshot::SnapshotFaults;
use flyball_core::{DataType, RowSink, Scalar, TensorSpec};
use serde_json::{Value as Json, json};

fn read(document: &Json) -> DecisionDocument {
    DecisionDocument::read(document).expect("a document")
}

/// The good document with other models under the same names, as versions 3 and 4.
fn candidate() -> Json {
    let mut document = document();
    document["models"][0]["version"] = json!("3");
    document["models"][0]["score"] = json!({"output": "p", "element": 0});
    document["models"][1]["version"] = json!("4");
    document
}

fn compile(document: &DecisionDocument) -> Result<Program, SnapshotFaults> {
    let spec = |name: &str, datatype, shape: &[i64]| TensorSpec {
        name: name.to_owned(),
        datatype,
        shape: shape.to_vec(),
    };
    let first = [spec("x", DataType::Fp32, &[-1, 4])];
    let second = [
        spec("x", DataType::Fp32, &[-1, 3]),
        spec("n", DataType::Int64, &[-1]),
        spec("words", DataType::Bytes, &[-1, 1]),
    ];
    let outputs = [spec("label", DataType::Int64, &[1]), spec("p", DataType::Fp32, &[1, 2])];
    let facts = |version, inputs| ModelFacts { version, inputs, outputs: &outputs, explain: None };
    let models =
        [facts("1", &first[..]), facts("2", &second[..]), facts("3", &first[..]), facts("4", &second[..])];
    Program::compile(document, &models)
}

fn tried(share: f64, shadow: bool) -> Program {
    let document =
        read(&document()).with_candidate(&read(&candidate()), share, shadow).expect("it may be tried");
    compile(&document).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn a_candidate_is_a_further_variant_of_its_own_models() {
    let program = tried(0.25, false);
    let variant = program.variants.last().expect("variants");
    assert_eq!((&*variant.name, program.variants.len()), (CANDIDATE, 3));
    let models: Vec<_> = variant.models.iter().map(|&model| &program.models[model]).collect();
    assert_eq!(models.iter().map(|model| &*model.name).collect::<Vec<_>>(), ["candidate.first"]);
    assert_eq!(models.iter().map(|model| &*model.version).collect::<Vec<_>>(), ["3"]);
    assert_eq!(program.models[0].version.as_ref(), "1", "the champion's is as it was");
    assert!(program.route.shadow.is_empty());
}

#[test]
fn what_is_the_same_has_the_same_digest_and_the_whole_has_another() {
    let (plain, tried) = (compile(&read(&document())).expect("compiles"), tried(0.25, false));
    assert_eq!((plain.policy_digest, plain.schema_digest), (tried.policy_digest, tried.schema_digest));
    assert_ne!(plain.document_digest, tried.document_digest);
}

/// How many of the keys go to each variant.
fn shares(program: &Program, keys: usize) -> Vec<usize> {
    let mut counts = vec![0; program.variants.len()];
    let mut rows = Rows::default();
    for key in 0..keys {
        program.begin(&mut rows);
        let mut reader = program.reader(&mut rows);
        reader.row(None);
        reader.field("card", Scalar::Text(&format!("card-{key}")));
        reader.field("amount", Scalar::Float(1.0));
        reader.field("country", Scalar::Text("CH"));
        reader.finish();
        counts[program.route.choose(&rows, 0, 0)] += 1;
    }
    counts
}

#[test]
fn rows_stick_to_a_candidate_as_the_champions_route_says_and_others_stay_where_they_were() {
    let before = shares(&compile(&read(&document())).expect("compiles"), 20_000);
    let with = shares(&tried(0.1, false), 20_000);
    assert_eq!(before[1], with[1], "who went to another variant still does");
    assert_eq!(before[0] - with[0], with[2], "a candidate takes from the champion alone");
    // 20,000 draws at 0.1: five standard deviations are 212.
    assert!(with[2].abs_diff(2000) < 212, "{with:?}");
    assert_eq!(shares(&tried(0.0, false), 1000)[2], 0);
}

#[test]
fn a_candidate_in_the_shadow_gets_no_row() {
    let program = tried(1.0, true);
    assert_eq!(program.route.shadow, [2]);
    assert_eq!(shares(&program, 1000)[2], 0);
}

#[test]
fn scores_that_its_models_take_are_the_candidates_own() {
    let variants = |mut document: Json| {
        document["variants"] =
            json!([{"name": "all", "models": ["first", "second"], "weights": {"second": 1.0}}]);
        document.as_object_mut().expect("an object").remove("route");
        document["remedies"] = json!({});
        read(&document)
    };
    let tried =
        variants(document()).with_candidate(&variants(candidate()), 0.5, false).expect("it may be tried");
    let second = tried.models.last().expect("models");
    assert_eq!(second.name, "candidate.second");
    assert_eq!(second.inputs[0].columns, ["candidate.first.score", "spent", "amount_items"]);
    let program = compile(&tried).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(program.variants[1].weights, [0.0, 1.0]);
}

#[test]
fn a_candidate_that_differs_in_anything_else_is_refused_with_what_differs() {
    for (pointer, value, path) in [
        ("/policy/bands/0/to", json!(0.4), "policy.bands[0].to"),
        ("/input/1/max", json!(5.0), "input[1].max"),
        ("/transforms/2/mean", json!([4.0]), "transforms[2].mean[0]"),
        ("/route/split/both", json!(0.5), "route.split.both"),
        ("/purpose", json!("another"), "purpose"),
        ("/event_time", json!(null), "event_time"),
        ("/variants/-", json!({"name": "third", "models": ["first"], "weights": {"first": 1.0}}), "variants"),
    ] {
        let faults =
            read(&document()).with_candidate(&read(&with(pointer, value)), 0.1, false).expect_err(pointer);
        assert_eq!(faults.0.iter().map(|fault| fault.path.as_str()).collect::<Vec<_>>(), [path]);
        assert!(faults.to_string().contains("models alone"), "{faults}");
    }
    let mut other = candidate();
    other["models"][0]["name"] = json!("renamed");
    let faults = read(&document()).with_candidate(&read(&other), 0.1, false).expect_err("a model is missing");
    assert_eq!(faults.0[0].path, "models.first");
}

#[test]
fn a_decision_that_calls_a_variant_so_itself_has_no_room_for_one() {
    let named = |mut document: Json| {
        document["variants"][1]["name"] = json!(CANDIDATE);
        document["route"] = json!({});
        document["remedies"] = json!({});
        read(&document)
    };
    let faults =
        named(document()).with_candidate(&named(candidate()), 0.1, false).expect_err("the name is taken");
    assert_eq!(faults.0[0].path, "variants.candidate");
}

#[test]
fn shares_that_come_to_more_than_all_are_refused() {
    let tried = read(&document()).with_candidate(&read(&candidate()), 0.9, false).expect("a document");
    let faults = compile(&tried).expect_err("0.25 and 0.9");
    assert_eq!(faults.0[0].path, "route.split");
}
