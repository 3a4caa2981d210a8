//! Idempotency keys: a retry gets the first attempt's decision.

use super::world::{Mood, World, decided, document, many, one};
use crate::testing::Made;
use flyball_core::{FaultKind, Stage};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// With a window over the events of a key; the rule shows its value.
fn counting() -> Json {
    let mut document = document();
    document["features"] = json!([{
        "name": "events", "type": "float", "window": {"op": "count", "by": "k", "last_ms": 60_000},
    }]);
    document
}

fn row() -> Json {
    json!({"x": 1, "k": "a"})
}

#[test]
fn a_second_request_with_the_key_gets_the_first_one_s_decision_and_nothing_runs() {
    let world = World::new(&[1], &document());
    let first = world.ask(one(row()).keyed("key"));
    let second = world.ask(one(row()).keyed("key"));
    assert_eq!(decided(&first, 0), decided(&second, 0));
    assert!(!first.unwrap().repeated && second.unwrap().repeated);
    assert_eq!(world.puppets[0].runs(), 1);
    let seen = world.lane.sink.1.borrow();
    assert_eq!((seen.decided.len(), seen.repeated, seen.walks.len()), (1, 1, 2));
}

#[test]
fn requests_with_one_key_at_the_same_time_are_decided_once() {
    let world = World::new(&[1], &document());
    let answers = world.ask_all((0..8).map(|_| one(row()).keyed("key")).collect());
    let ids: Vec<_> = answers.iter().map(|answer| decided(answer, 0).id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(answers.iter().filter(|answer| answer.as_ref().unwrap().repeated).count(), 7);
    assert_eq!((world.puppets[0].runs(), world.lane.sink.1.borrow().decided.len()), (1, 1));
}

#[test]
fn the_key_of_another_body_is_a_conflict_and_other_keys_are_none() {
    let world = World::new(&[1], &document());
    assert!(world.ask(one(row()).keyed("key")).is_ok());
    let fault = world.ask(one(json!({"x": 2})).keyed("key")).unwrap_err();
    assert_eq!(fault.kind, FaultKind::KeyConflict);
    assert!(world.ask(one(json!({"x": 2})).keyed("other")).is_ok());
    assert_eq!(world.puppets[0].runs(), 2);
}

#[test]
fn after_a_failure_the_next_tries_and_the_answer_is_kept_over_a_reload() {
    let world = World::new(&[1], &counting());
    world.puppets[0].is(Mood::Fails);
    assert!(world.ask(one(row()).keyed("key")).is_err());
    world.puppets[0].is(Mood::Well);
    let first = world.ask(one(row()).keyed("key"));
    assert!(!first.as_ref().unwrap().repeated);
    world.reload(&counting()).unwrap();
    let second = world.ask(one(row()).keyed("key"));
    assert_eq!(decided(&first, 0).id, decided(&second, 0).id);
    assert_eq!(world.puppets[0].runs(), 2);
}

#[test]
fn who_waits_for_the_first_one_with_its_key_waits_no_longer_than_its_deadline() {
    // It runs on a compute lane, which this test does not poll.
    let world = World::made(Made { first: Duration::from_millis(2), ..Made::usual() }, &[1], &document());
    let within = |ms| one(row()).keyed("key").with(|ask| ask.timeout = Some(Duration::from_millis(ms)));
    let answers = world.ask_all(vec![within(50), within(10)]);
    let faults: Vec<_> = answers.into_iter().map(Result::unwrap_err).collect();
    assert_eq!((faults[0].kind, faults[0].stage), (FaultKind::LaneFull, Stage::Queue));
    assert_eq!((faults[1].kind, faults[1].stage), (FaultKind::DeadlinePassed, Stage::Route));
}

#[test]
fn an_invalid_request_keeps_no_key() {
    let world = World::new(&[1], &document());
    assert!(world.ask(one(json!({"x": -1})).keyed("key")).is_err());
    let answer = world.ask(many(vec![json!({"x": -1}), row()]).keyed("list"));
    assert!(world.ask(many(vec![json!({"x": -1}), row()]).keyed("list")).unwrap().repeated);
    assert_eq!(&*decided(&answer, 1).outcome, "pass");
}

#[test]
fn an_answer_that_is_kept_is_given_although_its_model_is_not_asked_any_more() {
    let world = World::new(&[1], &document());
    let first = world.ask(one(row()).keyed("key"));
    world.break_champion();
    let second = world.ask(one(row()).keyed("key"));
    assert_eq!(decided(&first, 0).id, decided(&second, 0).id);
    let others = [world.ask(one(row()).keyed("other")), world.ask(one(row()))];
    assert_eq!(others.map(|answer| answer.unwrap_err().kind), [FaultKind::BreakerOpen; 2]);
}

#[test]
fn a_key_whose_request_was_refused_may_come_with_another_body() {
    let world = World::new(&[1], &document());
    assert!(world.ask(one(json!({"x": -1})).keyed("key")).is_err());
    assert_eq!(&*decided(&world.ask(one(row()).keyed("key")), 0).outcome, "pass");
}
