//! Chains, ensembles and splits.

use super::world::{Mood, World, decided, document, many, model, one, variant};
use crate::testing::Made;
use flyball_core::{FaultKind, RowOutcome, Stage};
use serde_json::{Value as Json, json};
use std::time::Duration;

fn two_variants() -> Json {
    let mut document = document();
    document["models"] = json!([model("a", "1"), model("b", "2")]);
    document["variants"] = json!([variant("champion", &["a"]), variant("challenger", &["b"])]);
    document
}

#[test]
fn the_second_model_of_a_chain_is_given_the_first_one_s_score() {
    let mut document = document();
    let mut second = model("b", "2");
    second["inputs"][0]["columns"] = json!(["a.score"]);
    document["models"] = json!([model("a", "1"), second]);
    let mut chain = variant("champion", &["a", "b"]);
    chain["weights"] = json!({"b": 1.0});
    document["variants"] = json!([chain]);
    let world = World::new(&[2, 3], &document);
    let answer = world.ask(one(json!({"x": 2})));
    let row = decided(&answer, 0);
    assert_eq!(row.score, Some(12.0));
    let scores: Vec<_> = row.scores.iter().map(|(name, score)| (&**name, *score)).collect();
    assert_eq!(scores, [("a", 4.0), ("b", 12.0)]);
    assert_eq!(answer.unwrap().models.len(), 2);
    let seen = world.lane.sink.1.borrow();
    let walk = &seen.walks[0];
    assert_eq!(walk.stages[Stage::Infer.index()], Some(Duration::from_micros(10)));
    assert_eq!(walk.stages.into_iter().flatten().sum::<Duration>(), walk.total);
}

#[test]
fn an_ensemble_s_score_is_the_weighted_sum_of_its_models() {
    let mut document = document();
    document["models"] = json!([model("a", "1"), model("b", "2")]);
    let mut both = variant("champion", &["a", "b"]);
    both["weights"] = json!({"a": 0.25, "b": 0.75});
    document["variants"] = json!([both]);
    let world = World::new(&[1, 5], &document);
    let row = decided(&world.ask(one(json!({"x": 4}))), 0);
    assert_eq!((row.score, &*row.outcome), (Some(0.25 * 4.0 + 0.75 * 20.0), "review"));
}

#[test]
fn rows_stick_to_their_variant_by_their_key_and_each_variant_runs_once() {
    let mut document = two_variants();
    document["route"] = json!({"split": {"challenger": 0.5}, "sticky": "k"});
    let world = World::new(&[1, 2], &document);
    let rows: Vec<_> = (0..60).map(|key| json!({"x": 4, "k": format!("key-{key}")})).collect();
    let (first, second) = (world.ask(many(rows.clone())), world.ask(many(rows)));
    let mut challenged = 0;
    for row in 0..60 {
        let (row, again) = (decided(&first, row), decided(&second, row));
        assert_eq!(row.variant, again.variant);
        let challenger = row.variant.as_deref() == Some("challenger");
        assert_eq!(row.score, Some(if challenger { 8.0 } else { 4.0 }));
        challenged += usize::from(challenger);
    }
    assert!((10..50).contains(&challenged), "{challenged}");
    assert_eq!((world.puppets[0].runs(), world.puppets[1].runs()), (2, 2));
    assert_eq!(first.unwrap().models.len(), 2);
}

#[test]
fn a_split_without_a_key_is_drawn_anew() {
    let mut document = two_variants();
    document["route"] = json!({"split": {"challenger": 0.5}});
    let world = World::new(&[1, 2], &document);
    let answer = world.ask(many(vec![json!({"x": 4}); 60]));
    let challenged = (0..60).filter(|&row| decided(&answer, row).score == Some(8.0)).count();
    assert!((10..50).contains(&challenged), "{challenged}");
}

#[test]
fn a_champion_that_is_not_asked_any_more_does_not_refuse_what_goes_to_the_challenger() {
    let mut document = two_variants();
    let world = World::new(&[1, 2], &document);
    world.break_champion();
    assert_eq!(world.ask(one(json!({"x": 4}))).unwrap_err().kind, FaultKind::BreakerOpen);
    document["route"] = json!({"split": {"challenger": 1.0}});
    world.reload(&document).unwrap();
    let row = decided(&world.ask(one(json!({"x": 4}))), 0);
    assert_eq!((row.score, row.variant.as_deref()), (Some(8.0), Some("challenger")));
}

#[test]
fn each_variant_of_a_list_is_admitted_by_itself() {
    let mut document = two_variants();
    document["route"] = json!({"split": {"challenger": 0.5}, "sticky": "k"});
    let world = World::new(&[1, 2], &document);
    let row = |key: &str| json!({"x": 4, "k": key});
    let keys: Vec<_> = (0..60).map(|key| format!("key-{key}")).collect();
    let of = |name: &str| {
        let goes = |key: &&String| decided(&world.ask(one(row(key))), 0).variant.as_deref() == Some(name);
        keys.iter().find(goes).unwrap()
    };
    let (champion, challenger) = (row(of("champion")), row(of("challenger")));
    world.puppets[1].is(Mood::Panics);
    for _ in 0..10 {
        assert!(world.ask(many(vec![champion.clone(), challenger.clone()])).is_ok());
    }
    let runs = world.puppets[1].runs();
    for (rows, well) in [([&champion, &challenger], 0), ([&challenger, &champion], 1)] {
        let answer = world.ask(many(rows.map(Json::clone).to_vec()));
        assert_eq!(decided(&answer, well).score, Some(4.0));
        let other = &answer.unwrap().rows[1 - well].outcome;
        assert!(matches!(other, RowOutcome::Failed { kind: FaultKind::BreakerOpen, .. }), "{other:?}");
    }
    assert_eq!(world.puppets[1].runs(), runs, "a model that broke is left alone");
}

#[test]
fn offline_a_row_takes_the_route_that_it_names() {
    let mut document = document();
    document["models"] = json!([model("a", "1"), model("b", "2")]);
    document["variants"] = json!([variant("champion", &["a"]), variant("other", &["b"])]);
    document["route"] = json!({"split": {"other": 0.5}});
    let world = World::by(|services| services.offline = true, Made::usual(), &[1, 2], &document);
    for _ in 0..8 {
        let rows = ["champion", "other", "rules"].map(|way| json!({"x": 7, "as": way}));
        let answer = world.ask(many(rows.to_vec()));
        let rows = [0, 1, 2].map(|row| decided(&answer, row)).map(|row| (row.score, row.variant));
        let wanted = [(Some(7.0), Some("champion".into())), (Some(14.0), Some("other".into())), (None, None)];
        assert_eq!(rows, wanted);
        assert_eq!(decided(&answer, 2).remedy, None);
    }
    let fault = world.ask(one(json!({"x": 7, "as": "otter"}))).unwrap_err();
    assert_eq!((fault.kind, &*fault.fields[0].field), (FaultKind::FieldsInvalid, "as"));
    assert!(fault.fields[0].allowed.contains("other"), "{fault:?}");
}
