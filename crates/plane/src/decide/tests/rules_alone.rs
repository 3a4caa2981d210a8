//! Decisions without a model: rules alone decide, and the other stages work as usual.

use super::world::{World, decided, document, many, one};
use flyball_core::{FaultKind, RowOutcome};
use serde_json::{Value as Json, json};

/// The usual decision without its model; 7 is rejected, and rows that no rule decides are reviewed.
fn rules_alone() -> Json {
    let mut document = document();
    let parts = document.as_object_mut().unwrap();
    parts.remove("models");
    parts.remove("variants");
    document["policy"].as_object_mut().unwrap().remove("bands");
    document
}

#[test]
fn the_rules_alone_decide_and_nothing_is_scored() {
    let world = World::new(&[], &rules_alone());
    let answer = world.ask(many(vec![json!({"x": 7}), json!({"x": 1}), json!({"x": -1})]));
    let rows = [decided(&answer, 0), decided(&answer, 1)];
    assert_eq!(rows.each_ref().map(|row| (&*row.outcome, row.score)), [("reject", None), ("review", None)]);
    assert_eq!(&*rows[0].reasons[0].code, "R7");
    let answer = answer.unwrap();
    assert!(answer.models.is_empty() && matches!(answer.rows[2].outcome, RowOutcome::Invalid(_)));
}

#[test]
fn a_guard_ends_a_row_and_a_second_attempt_judges_it_again() {
    let mut guarded = rules_alone();
    guarded["policy"]["guards"] = json!([{"of": "x", "max": 5.0}]);
    let world = World::new(&[], &guarded);
    let fault = world.ask(one(json!({"x": 7}))).unwrap_err();
    assert_eq!(fault.kind, FaultKind::GuardViolated);
    guarded["remedies"] = json!({"guard_violated": "retry"});
    world.reload(&guarded).unwrap();
    assert_eq!(world.ask(one(json!({"x": 7}))).unwrap_err().kind, FaultKind::GuardViolated);
    guarded["remedies"] = json!({"guard_violated": "rules"});
    world.reload(&guarded).unwrap();
    assert_eq!(&*decided(&world.ask(one(json!({"x": 7}))), 0).outcome, "reject");
}

#[test]
fn what_needs_a_score_is_refused() {
    let world = World::new(&[], &rules_alone());
    for (place, value, words) in [
        ("rules", json!([{"when": "score > 1.0", "then": "reject"}]), "the decision has no model"),
        ("rules", json!([]), "decides by its rules"),
        ("guards", json!([{"of": "score", "max": 1.0}]), "the decision has no model"),
        ("bands", json!([{"name": "pass"}]), "there is no score"),
    ] {
        let mut wrong = rules_alone();
        wrong["policy"][place] = value;
        let why = world.reload(&wrong).unwrap_err();
        assert!(why.contains(words), "{place}: {why}");
    }
}
