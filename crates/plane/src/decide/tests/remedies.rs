//! Each kind of fault, and its declared remedy: the remedy is applied, and the answer reports it.

use super::world::{Mood, World, decided, document, many, model, one, variant};
use crate::testing::Made;
use flyball_core::{FaultKind, Outcome, Remedied, Remedy, RowOutcome, Stage};
use serde_json::{Value as Json, json};
use std::time::Duration;

fn remedied(cause: FaultKind, stage: Stage, remedy: Remedy) -> Option<Remedied> {
    Some(Remedied { cause, stage, remedy })
}

fn with_remedy(cause: &str, remedy: Json) -> Json {
    let mut document = document();
    document["remedies"] = json!({ cause: remedy });
    document
}

/// With a second model, three times the first, as the previous one.
fn with_fallback(cause: &str) -> Json {
    let mut document = with_remedy(cause, json!("previous"));
    document["models"] = json!([model("a", "1"), model("b", "2")]);
    document["variants"] = json!([variant("champion", &["a"]), variant("before", &["b"])]);
    document["route"] = json!({"fallback": "before"});
    document
}

#[test]
fn a_model_that_fails_is_the_answer_where_nothing_is_declared() {
    let world = World::new(&[1], &document());
    world.puppets[0].is(Mood::Fails);
    let fault = world.ask(one(json!({"x": 1}))).unwrap_err();
    assert_eq!((fault.kind, world.puppets[0].runs()), (FaultKind::RunFailed, 1));
    let seen = world.lane.sink.1.borrow();
    assert_eq!((seen.walks[0].outcome, seen.decided[0].outcome), (Outcome::Failed, None));
}

#[test]
fn a_model_that_fails_or_panics_leaves_it_to_the_previous_one() {
    for (mood, cause) in [(Mood::Fails, FaultKind::RunFailed), (Mood::Panics, FaultKind::Panicked)] {
        let world = World::new(&[1, 3], &with_fallback("model_unavailable"));
        world.puppets[0].is(mood);
        let answer = world.ask(one(json!({"x": 5})));
        let row = decided(&answer, 0);
        assert_eq!(
            (&*row.outcome, row.score, row.variant.as_deref()),
            ("review", Some(15.0), Some("before"))
        );
        assert_eq!(row.remedy, remedied(cause, Stage::Infer, Remedy::Previous));
        assert_eq!(&*answer.unwrap().models[0].model, "b");
        let seen = world.lane.sink.1.borrow();
        assert_eq!((seen.walks[0].outcome, seen.decided[0].outcome), (Outcome::Answered, Some(1)));
        assert_eq!(seen.decided[0].remedy, row.remedy);
    }
}

#[test]
fn a_model_that_broke_again_and_again_is_not_asked_any_more_and_the_previous_one_goes_on() {
    let world = World::new(&[1, 3], &with_fallback("model_unavailable"));
    world.puppets[0].is(Mood::Panics);
    for _ in 0..8 {
        decided(&world.ask(one(json!({"x": 5}))), 0);
    }
    let row = decided(&world.ask(one(json!({"x": 5}))), 0);
    assert_eq!(row.remedy, remedied(FaultKind::BreakerOpen, Stage::Admit, Remedy::Previous));
    assert_eq!((row.score, world.puppets[0].runs(), world.puppets[1].runs()), (Some(15.0), 8, 9));
}

#[test]
fn where_the_previous_one_fails_too_there_is_no_third() {
    let world = World::new(&[1, 3], &with_fallback("model_unavailable"));
    world.puppets.iter().for_each(|puppet| puppet.is(Mood::Fails));
    assert_eq!(world.ask(one(json!({"x": 5}))).unwrap_err().kind, FaultKind::RunFailed);
    assert_eq!((world.puppets[0].runs(), world.puppets[1].runs()), (1, 1));
}

#[test]
fn a_retry_runs_the_same_model_once_more_and_the_time_of_both_is_reported() {
    let world = World::new(&[1], &with_remedy("model_unavailable", json!("retry")));
    world.puppets[0].is(Mood::Stumbles);
    let row = decided(&world.ask(one(json!({"x": 5}))), 0);
    assert_eq!((&*row.outcome, row.score), ("pass", Some(5.0)));
    assert_eq!(row.remedy, remedied(FaultKind::RunFailed, Stage::Infer, Remedy::Retry));
    let seen = world.lane.sink.1.borrow();
    let walk = &seen.walks[0];
    assert_eq!(
        (walk.stages[Stage::Infer.index()], walk.total),
        (Some(walk.total), Duration::from_micros(10))
    );
    drop(seen);
    world.puppets[0].is(Mood::Fails);
    assert!(world.ask(one(json!({"x": 5}))).is_err());
    assert_eq!(world.puppets[0].runs(), 4, "never a third time");
}

#[test]
fn the_rules_decide_alone_and_what_none_decides_a_person_looks_at() {
    let world = World::new(&[1], &with_remedy("model_unavailable", json!("rules")));
    world.puppets[0].is(Mood::Fails);
    let answer = world.ask(many(vec![json!({"x": 7}), json!({"x": 1})]));
    let rows = [decided(&answer, 0), decided(&answer, 1)];
    assert_eq!(rows.each_ref().map(|row| &*row.outcome), ["reject", "review"]);
    for row in rows {
        assert_eq!((row.score, row.band, row.variant), (None, None, None));
        assert_eq!(row.remedy, remedied(FaultKind::RunFailed, Stage::Infer, Remedy::Rules));
    }
    assert!(answer.unwrap().models.is_empty());
}

#[test]
fn a_declared_outcome_needs_no_model() {
    let world = World::new(&[1], &with_remedy("model_unavailable", json!({"outcome": "review"})));
    world.puppets[0].is(Mood::Panics);
    let row = decided(&world.ask(one(json!({"x": 1}))), 0);
    assert_eq!((&*row.outcome, row.score), ("review", None));
    assert_eq!(row.remedy, remedied(FaultKind::Panicked, Stage::Infer, Remedy::Outcome));
}

#[test]
fn a_deployment_that_is_full_sheds_or_lets_the_rules_decide() {
    let full = Made { in_flight_max: 0, ..Made::usual() };
    let world = World::made(full, &[1], &with_remedy("queue_full", json!("rules")));
    let row = decided(&world.ask(one(json!({"x": 7}))), 0);
    assert_eq!(row.remedy, remedied(FaultKind::InFlightFull, Stage::Admit, Remedy::Rules));
    assert_eq!((&*row.outcome, world.puppets[0].runs()), ("reject", 0));
    let world = World::made(full, &[1], &with_remedy("queue_full", json!("shed")));
    let fault = world.ask(one(json!({"x": 7}))).unwrap_err();
    assert_eq!(fault.kind, FaultKind::InFlightFull);
    assert!(fault.retry_after.is_some());
    let seen = world.lane.sink.1.borrow();
    assert_eq!(seen.decided[0].remedy, remedied(FaultKind::InFlightFull, Stage::Admit, Remedy::Shed));
}

#[test]
fn a_deadline_that_a_run_cannot_keep_is_answered_by_the_rules_in_time() {
    let slow = Made { first: Duration::from_millis(5), ..Made::usual() };
    let world = World::made(slow, &[1], &with_remedy("timeout", json!("rules")));
    let asked = one(json!({"x": 1})).with(|ask| ask.timeout = Some(Duration::from_millis(4)));
    let row = decided(&world.ask(asked), 0);
    assert_eq!(row.remedy, remedied(FaultKind::DeadlineUnreachable, Stage::Admit, Remedy::Rules));
    assert_eq!((&*row.outcome, world.puppets[0].runs()), ("review", 0));
}

#[test]
fn a_lane_that_hangs_is_not_waited_for_beyond_the_deadline() {
    // It runs on a compute lane, which this test does not poll.
    let slow = Made { first: Duration::from_millis(2), ..Made::usual() };
    let world = World::made(slow, &[1], &with_remedy("timeout", json!("rules")));
    let asked = one(json!({"x": 1})).with(|ask| ask.timeout = Some(Duration::from_millis(10)));
    let compute = world.lane.plane.lanes.sockets;
    let row = decided(
        &world.ask_while(asked, |lane| {
            let sent = lane.plane.load_ns(compute) > 0;
            if sent {
                lane.plane.clock.advance(Duration::from_secs(1));
            }
            sent
        }),
        0,
    );
    assert_eq!(row.remedy, remedied(FaultKind::DeadlinePassed, Stage::Queue, Remedy::Rules));
}

#[test]
fn a_score_outside_its_guard_meets_its_remedy_and_the_other_rows_do_not() {
    let mut document = with_remedy("guard_violated", json!({"outcome": "review"}));
    document["policy"]["guards"] = json!([{"of": "score", "min": 0, "max": 100}]);
    document["policy"]["bands"][0]["from"] = json!(0);
    document["policy"]["bands"][2]["to"] = json!(101);
    let world = World::new(&[1], &document);
    let answer = world.ask(many(vec![json!({"x": 101}), json!({"x": 100})]));
    let rows = [decided(&answer, 0), decided(&answer, 1)];
    assert_eq!(rows[0].remedy, remedied(FaultKind::GuardViolated, Stage::Policy, Remedy::Outcome));
    assert_eq!((&*rows[0].outcome, rows[0].score), ("review", None));
    assert_eq!((&*rows[1].outcome, rows[1].remedy), ("reject", None));
}

#[test]
fn an_input_outside_its_guard_is_not_run() {
    let mut document = document();
    document["policy"]["guards"] = json!([{"of": "x", "max": 50}]);
    let world = World::new(&[1], &document);
    let fault = world.ask(one(json!({"x": 51}))).unwrap_err();
    assert_eq!((fault.kind, world.puppets[0].runs()), (FaultKind::GuardViolated, 0));
    let answer = world.ask(many(vec![json!({"x": 51}), json!({"x": 50})])).unwrap();
    assert!(matches!(&answer.rows[0].outcome, RowOutcome::Failed { kind: FaultKind::GuardViolated, .. }));
    assert!(matches!(&answer.rows[1].outcome, RowOutcome::Decided(_)));
}

#[test]
fn an_invalid_row_may_have_an_outcome_declared() {
    let world = World::new(&[1], &with_remedy("invalid_input", json!({"outcome": "review"})));
    let row = decided(&world.ask(one(json!({"x": -1}))), 0);
    assert_eq!((&*row.outcome, world.puppets[0].runs()), ("review", 0));
    assert_eq!(row.remedy, remedied(FaultKind::FieldsInvalid, Stage::Parse, Remedy::Outcome));
}

#[test]
fn a_feature_that_must_be_there_and_is_not_meets_its_remedy() {
    let mut document = with_remedy("feature_error", json!({"outcome": "review"}));
    document["sources"] =
        json!({"s": {"kind": "redis", "url": "redis://127.0.0.1:1", "set": "s", "timeout_ms": 1}});
    document["features"] = json!([{
        "name": "limit", "type": "float", "lookup": {"source": "s", "key": "k", "field": "limit"}, "on_error": "fault",
    }]);
    let world = World::new(&[1], &document);
    let row = decided(&world.ask(one(json!({"x": 1, "k": "a"}))), 0);
    assert_eq!(row.remedy, remedied(FaultKind::FeatureUnavailable, Stage::Features, Remedy::Outcome));
    assert_eq!((&*row.outcome, world.puppets[0].runs()), ("review", 0));
    let row = decided(&world.ask(one(json!({"x": 1}))), 0);
    assert_eq!((&*row.outcome, row.remedy), ("pass", None), "without a key there is nothing to ask for");
}
