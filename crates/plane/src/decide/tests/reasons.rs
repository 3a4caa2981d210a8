//! Reasons: always from the rules, and from the model if requested or if the outcome is adverse.

use super::world::{World, decided, document, model, one, variant};
use flyball_core::Decided;
use serde_json::{Value as Json, json};
use std::time::Duration;

/// With a second field and model input, so that reasons differ.
fn explained(explain: Json) -> Json {
    let mut document = document();
    let mut explained = model("a", "1");
    explained["explain"] = explain;
    document["models"] = json!([explained]);
    document["policy"]["adverse"] = json!(["reject"]);
    document["policy"]["reasons"] = json!({"codes": {"x": "X1"}, "texts": {"X1": "too much", "R7": "seven"}});
    document
}

fn reasons_of(row: &Decided) -> Vec<(String, Option<f64>)> {
    row.reasons
        .iter()
        .map(|reason| (reason.code.to_string(), reason.contribution.as_ref().map(|(_, by)| *by)))
        .collect()
}

fn linear() -> Json {
    json!({"by": "linear", "coefficients": [2.0], "means": [1.0]})
}

#[test]
fn an_adverse_outcome_is_explained_by_itself_and_others_when_asked() {
    let world = World::new(&[2], &explained(linear()));
    let row = decided(&world.ask(one(json!({"x": 20}))), 0);
    assert_eq!(reasons_of(&row), [("X1".to_owned(), Some(38.0))]);
    assert_eq!(row.reasons[0].text.as_deref(), Some("too much"));
    assert!(reasons_of(&decided(&world.ask(one(json!({"x": 2}))), 0)).is_empty());
    let asked = one(json!({"x": 2})).with(|ask| ask.explain = true);
    assert_eq!(reasons_of(&decided(&world.ask(asked), 0)), [("X1".to_owned(), Some(2.0))]);
    let row = decided(&world.ask(one(json!({"x": 7}))), 0);
    assert_eq!(reasons_of(&row), [("R7".to_owned(), None)], "the rule decided alone");
    let asked = one(json!({"x": 7})).with(|ask| ask.explain = true);
    let row = decided(&world.ask(asked), 0);
    assert_eq!(
        reasons_of(&row),
        [("R7".to_owned(), None), ("X1".to_owned(), Some(12.0))],
        "rules come first"
    );
}

#[test]
fn any_other_model_is_run_once_more_with_its_columns_at_their_baseline() {
    let world = World::new(&[3], &explained(json!({"by": "ablation", "baseline": [4.0]})));
    let row = decided(&world.ask(one(json!({"x": 20}))), 0);
    assert_eq!(reasons_of(&row), [("X1".to_owned(), Some(48.0))]);
    assert_eq!(*world.puppets[0].given.lock().unwrap(), [vec![20], vec![4]]);
    let row = decided(&world.ask(one(json!({"x": 1}))), 0);
    assert!(reasons_of(&row).is_empty() && world.puppets[0].runs() == 3, "not requested");
}

#[test]
fn in_an_ensemble_what_one_model_pushes_up_another_may_push_down() {
    let mut document = explained(linear());
    let mut second = model("b", "2");
    second["explain"] = json!({"by": "linear", "coefficients": [-1.0], "means": [0.0]});
    document["models"] = json!([document["models"][0], second]);
    let mut both = variant("champion", &["a", "b"]);
    both["weights"] = json!({"a": 0.5, "b": 0.5});
    document["variants"] = json!([both]);
    let world = World::new(&[2, 1], &document);
    let asked = one(json!({"x": 6})).with(|ask| ask.explain = true);
    let row = decided(&world.ask(asked), 0);
    assert_eq!(reasons_of(&row), [("X1".to_owned(), Some(0.5 * 10.0 - 0.5 * 6.0))]);
}

#[test]
fn the_model_s_reasons_end_with_the_deadline_and_those_of_the_rules_stay() {
    for explain in [linear(), json!({"by": "ablation", "baseline": [4.0]})] {
        let world = World::new(&[2], &explained(explain));
        // A run takes 5 µs.
        let late = |x| one(json!({"x": x})).with(|ask| ask.timeout = Some(Duration::from_micros(4)));
        assert!(reasons_of(&decided(&world.ask(late(20)), 0)).is_empty());
        assert_eq!(reasons_of(&decided(&world.ask(late(7)), 0)), [("R7".to_owned(), None)]);
        assert_eq!(world.puppets[0].runs(), 2);
    }
}
