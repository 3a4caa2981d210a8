//! From rows to tensors, from outputs to scores, and the choice of variant.

use super::good::{compile, document, good, row, with};
use crate::{CompiledReaction, FeatureFact, Origin, Program, Rows, Scores, Scratch, Value};
use bytes::Bytes;
use flyball_core::{DataType, FaultKind, RowSink, Scalar, Tensor, TensorData};
use proptest::prelude::*;
use serde_json::json;

use Scalar::{Float, Int, Text};

fn floats(tensor: &Tensor) -> Vec<f32> {
    let TensorData::Fixed(data) = &tensor.data else { panic!("texts") };
    data.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four"))).collect()
}

fn output(shape: &[i64], values: &[f32]) -> Tensor {
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    Tensor {
        name: "p".into(),
        datatype: DataType::Fp32,
        shape: shape.into(),
        data: TensorData::Fixed(data.into()),
    }
}

/// `count` rows with different amounts and countries.
fn many(program: &Program, rows: &mut Rows, count: usize) {
    program.begin(rows);
    let mut reader = program.reader(rows);
    for place in 0..count {
        reader.row(None);
        reader.field("card", Text("1"));
        reader.field("amount", Float(place as f64));
        reader.field("country", Text(["CH", "FR", "XX"][place % 3]));
        reader.field("at", Int(3600 * place as i64));
    }
    reader.finish();
}

#[test]
fn tensors_have_the_columns_of_their_rows_in_the_models_order() {
    let program = good();
    let (mut rows, mut scores, mut scratch, mut out) =
        (Rows::default(), Scores::default(), Scratch::default(), Vec::new());
    many(&program, &mut rows, 3);
    program.begin_scores(&rows, &mut scores);
    program.tensors(0, &rows, &[2, 0], &scores, &mut scratch, &mut out);
    let column = |amount: f64| ((amount.ln_1p() - 3.0) / 2.0) as f32;
    assert_eq!((out.len(), &*out[0].name, out[0].shape.as_slice()), (1, "x", &[2_i64, 4][..]));
    assert_eq!(floats(&out[0]), [column(2.0), 0.0, 0.0, 2.0, column(0.0), 1.0, 0.0, 0.0]);
}

#[test]
fn a_chain_takes_the_score_of_the_model_before_and_texts_and_whole_numbers() {
    let program = good();
    let (mut rows, mut scores, mut scratch, mut out) =
        (Rows::default(), Scores::default(), Scratch::default(), Vec::new());
    many(&program, &mut rows, 2);
    program.begin_scores(&rows, &mut scores);
    let fact = FeatureFact { origin: Origin::Source, age_ms: Some(3) };
    assert!(program.put(&mut rows, 1, 1, Text("tin"), fact));
    assert!(!program.put(&mut rows, 0, 1, Text("wood"), fact));
    assert!(program.put(&mut rows, 1, 0, Int(5), fact));
    scores.set(1, 0, 0.5);
    program.tensors(1, &rows, &[1], &scores, &mut scratch, &mut out);
    let product = (1.0_f64.ln_1p() - 3.0) / 2.0;
    assert_eq!(floats(&out[0]), [0.5, 5.0, product as f32]);
    assert_eq!(
        (out[1].shape.as_slice(), &out[1].data),
        (&[1_i64][..], &TensorData::Fixed(Bytes::copy_from_slice(&1_i64.to_le_bytes())))
    );
    assert_eq!(out[2].data, TensorData::Strings(vec!["tin".into()]));
    assert_eq!((rows.fact(1, 1), rows.value(1, 8)), (fact, Value::Category(1)));
}

#[test]
fn the_columns_of_a_model_name_the_field_or_feature_that_they_come_from() {
    let program = good();
    let sources = |model: usize| program.models[model].sources.iter().map(|name| &**name).collect::<Vec<_>>();
    assert_eq!(sources(0), ["amount", "country", "country", "at"]);
    assert_eq!(sources(1), ["first.score", "spent", "amount_items", "channel", "tier"]);
}

#[test]
fn scores_are_read_from_every_shape_that_models_give() {
    let document = with("/models/0/score/element", json!(0));
    let program = compile(&document).expect("compiles");
    let mut rows = Rows::default();
    many(&program, &mut rows, 3);
    let mut scores = Scores::default();
    for shape in [&[2_i64][..], &[2, 1]] {
        program.begin_scores(&rows, &mut scores);
        program.scores(0, &[output(shape, &[0.25, 0.5])], &[2, 0], &mut scores).expect("two rows");
        assert_eq!((scores.get(2, 0), scores.get(0, 0)), (0.25, 0.5));
        assert!(scores.get(1, 0).is_nan() && scores.get(0, 1).is_nan());
    }
    let program = good();
    program.scores(0, &[output(&[2, 2], &[0.9, 0.1, 0.8, 0.2])], &[0, 1], &mut scores).expect("two rows");
    assert_eq!((scores.get(0, 0), scores.get(1, 0)), (f64::from(0.1_f32), f64::from(0.2_f32)));
    for wrong in [output(&[1, 2], &[0.9, 0.1]), output(&[2, 1], &[0.9, 0.1]), output(&[2, 2], &[0.9])] {
        let fault = program.scores(0, &[wrong], &[0, 1], &mut scores).expect_err("wrong shape");
        assert_eq!(fault.kind, FaultKind::RunFailed);
    }
    assert!(program.scores(0, &[], &[0], &mut scores).is_err());
}

#[test]
fn the_score_of_a_variant_is_the_weighted_sum_of_its_models() {
    let program = good();
    let mut rows = Rows::default();
    many(&program, &mut rows, 1);
    let mut scores = Scores::default();
    program.begin_scores(&rows, &mut scores);
    scores.set(0, 0, 0.5);
    assert_eq!(program.score(0, 0, &scores), 0.5, "a model that did not run has no part in it");
    assert!(program.score(1, 0, &scores).is_nan());
    scores.set(0, 1, 0.25);
    assert_eq!(program.score(1, 0, &scores), 0.25 * 0.5 + 0.75 * 0.25);
}

#[test]
fn a_key_always_meets_the_same_variant_and_shares_are_kept() {
    let program = good();
    let mut rows = Rows::default();
    let mut others = 0;
    for key in 0..4000 {
        row(&program, &mut rows, &[("card", Text(&key.to_string()))]);
        let variant = program.route.choose(&rows, 0, 0);
        assert_eq!(variant, program.route.choose(&rows, 0, u64::MAX));
        others += variant;
    }
    assert!((900..1100).contains(&others), "{others} of 4000 at a share of a quarter");
    row(&program, &mut rows, &[]);
    let drawn = [0, u64::MAX].map(|draw| program.route.choose(&rows, 0, draw));
    assert_eq!(drawn, [1, 0], "without a key it is drawn");
}

#[test]
fn a_larger_share_takes_nobody_away_who_had_it() {
    let (small, large) = (good(), compile(&with("/route/split/both", json!(0.5))).expect("compiles"));
    let mut rows = Rows::default();
    for key in 0..500 {
        row(&small, &mut rows, &[("card", Text(&key.to_string()))]);
        assert!(small.route.choose(&rows, 0, 0) <= large.route.choose(&rows, 0, 0));
    }
}

#[test]
fn features_that_are_not_there_meet_what_was_declared() {
    let program = good();
    let mut rows = Rows::default();
    many(&program, &mut rows, 1);
    assert!(program.react(&mut rows, 0, 0, &program.features[0].on_missing));
    assert_eq!((rows.value(0, 7), rows.fact(0, 0).origin), (Value::Float(0.0), Origin::Declared));
    assert_eq!(program.features[1].on_error, CompiledReaction::Fault);
    assert!(!program.react(&mut rows, 0, 1, &program.features[1].on_error));
    assert!(program.react(&mut rows, 0, 1, &program.features[1].on_missing));
    assert_eq!(rows.value(0, 8), Value::Missing);
}

#[test]
fn computed_features_are_expressions_over_what_stands_before_them() {
    let mut document = document();
    let features = document["features"].as_array_mut().expect("a list");
    features.push(json!({"name": "near", "type": "category", "values": ["CH", "DE"], "on_error": {"value": "DE"}, "compute": "country"}));
    features.push(json!({"name": "name", "type": "string", "compute": "card"}));
    features.push(json!({"name": "late", "type": "bool", "on_missing": "fault", "compute": "online"}));
    let program = compile(&document).expect("compiles");
    let mut rows = Rows::default();
    row(&program, &mut rows, &[("card", Text("77")), ("amount", Float(500.0)), ("country", Text("FR"))]);
    let told = [2, 3, 4, 5].map(|feature| program.compute(&mut rows, 0, feature));
    assert_eq!(told, [true, true, true, false]);
    assert_eq!(rows.value(0, 9), Value::Bool(true));
    assert_eq!((rows.value(0, 10), rows.fact(0, 3).origin), (Value::Category(1), Origin::Declared));
    let Value::Text(name) = rows.value(0, 11) else { panic!("{:?}", rows.value(0, 11)) };
    assert_eq!((rows.text(name), rows.fact(0, 4).origin), ("77", Origin::Computed));
}

#[test]
fn ablation_gets_the_columns_as_the_model_sees_them_and_tensors_of_what_it_changed() {
    let program = good();
    let (mut rows, mut scores, mut scratch) = (Rows::default(), Scores::default(), Scratch::default());
    many(&program, &mut rows, 2);
    program.begin_scores(&rows, &mut scores);
    let (mut columns, mut tensors, mut again) = (Vec::new(), Vec::new(), Vec::new());
    program.columns(0, &rows, 1, &scores, &mut scratch, &mut columns);
    assert_eq!(columns[0], f64::from(((1.0_f64.ln_1p() - 3.0) / 2.0) as f32));
    program.tensors(0, &rows, &[1], &scores, &mut scratch, &mut tensors);
    program.tensors_of(0, &columns, &mut scratch, &mut again);
    assert_eq!(tensors, again);
    let mut found = Vec::new();
    program.scores_of(0, &[output(&[2, 2], &[0.9, 0.1, 0.8, 0.2])], 2, &mut found).expect("two rows");
    assert_eq!(found, [f64::from(0.1_f32), f64::from(0.2_f32)]);
}

#[test]
fn memory_of_tensors_is_used_again() {
    let program = good();
    let (mut rows, mut scores, mut scratch, mut out) =
        (Rows::default(), Scores::default(), Scratch::default(), Vec::new());
    many(&program, &mut rows, 4);
    program.begin_scores(&rows, &mut scores);
    let mut places = std::collections::HashSet::new();
    for _ in 0..100 {
        program.tensors(0, &rows, &[0, 1, 2, 3], &scores, &mut scratch, &mut out);
        let TensorData::Fixed(data) = &out[0].data else { panic!("texts") };
        places.insert(data.as_ptr() as usize);
    }
    assert!(places.len() <= 4, "{places:?}");
}

proptest! {
    #[test]
    fn rows_get_the_same_columns_alone_and_among_many(count in 1_usize..200, at in 0_usize..200) {
        let program = good();
        let (mut rows, mut scores, mut scratch) = (Rows::default(), Scores::default(), Scratch::default());
        many(&program, &mut rows, count);
        program.begin_scores(&rows, &mut scores);
        let (mut alone, mut all) = (Vec::new(), Vec::new());
        let (at, which) = (at % count, (0..count).collect::<Vec<_>>());
        for model in 0..2 {
            program.tensors(model, &rows, &which, &scores, &mut scratch, &mut all);
            program.tensors(model, &rows, &[at], &scores, &mut scratch, &mut alone);
            for (alone, all) in alone.iter().zip(&all) {
                match (&alone.data, &all.data) {
                    (TensorData::Fixed(alone), TensorData::Fixed(all)) => {
                        prop_assert_eq!(alone, &all.slice(at * alone.len()..(at + 1) * alone.len()));
                    }
                    (TensorData::Strings(alone), TensorData::Strings(all)) => prop_assert_eq!(&alone[0], &all[at]),
                    _ => prop_assert!(false, "different kinds"),
                }
            }
        }
    }
}
