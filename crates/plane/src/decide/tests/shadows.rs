//! Shadows: they run after the answer, only if the lane is idle, and never change the answer.

use super::world::{Mood, World, decided, document, many, model, one, variant};
use crate::row_buffers::{Progress, RowState};
use crate::shadow_walk;
use crate::testing::Made;
use flyball_core::{DecisionId, Shadow, Shadowed};
use flyball_decision::{Fired, Verdict};
use serde_json::{Value as Json, json};

fn shadowed() -> Json {
    let mut document = document();
    document["models"] = json!([model("a", "1"), model("b", "2")]);
    document["variants"] = json!([variant("champion", &["a"]), variant("beside", &["b"])]);
    document["route"] = json!({"shadow": ["beside"]});
    document
}

#[test]
fn another_variant_is_compared_and_is_not_in_the_answer() {
    let world = World::new(&[1, 4], &shadowed());
    let answer = world.ask(many(vec![json!({"x": 1}), json!({"x": 4}), json!({"x": -1})]));
    assert_eq!((decided(&answer, 0).score, decided(&answer, 1).score), (Some(1.0), Some(4.0)));
    assert_eq!(answer.unwrap().models.len(), 1);
    assert_eq!(*world.puppets[1].given.lock().unwrap(), [vec![1, 4]], "once, for the rows that were decided");
    let wanted = [(true, 3.0), (false, 12.0)]
        .map(|(agrees, apart)| (Shadow::Variant, Shadowed::Compared { agrees, apart }));
    assert_eq!(world.lane.sink.1.borrow().shadowed, wanted);
}

#[test]
fn a_shadow_that_fails_is_counted_and_nobody_notices() {
    let world = World::new(&[1, 4], &shadowed());
    world.puppets[1].is(Mood::Fails);
    assert_eq!(&*decided(&world.ask(one(json!({"x": 1}))), 0).outcome, "pass");
    assert_eq!(world.lane.sink.1.borrow().shadowed, [(Shadow::Variant, Shadowed::Failed)]);
}

#[test]
fn where_others_want_the_places_a_shadow_is_dropped_and_counted() {
    // Three permits, of which two are held by requests in flight.
    let world = World::made(Made { in_flight_max: 3, ..Made::usual() }, &[1, 4], &shadowed());
    let routes = world.lane.plane.routes.load();
    let gates = &routes.get("d").unwrap().versions;
    let held: Vec<_> =
        gates.iter().flat_map(|model| [model.gate.try_enter(), model.gate.try_enter()]).collect();
    assert_eq!(&*decided(&world.ask(one(json!({"x": 1}))), 0).outcome, "pass");
    drop(held);
    assert_eq!(world.lane.sink.1.borrow().shadowed, [(Shadow::Variant, Shadowed::Dropped)]);
    assert_eq!(world.puppets[1].runs(), 0);
}

#[test]
fn another_policy_judges_the_same_scores() {
    let mut document = document();
    let mut strict = document["policy"].clone();
    strict["bands"] = json!([{"name": "pass", "to": 5}, {"name": "review", "from": 5, "to": 6}, {"name": "reject", "from": 6}]);
    document["policy"]["shadow"] = strict;
    let world = World::new(&[1], &document);
    let answer = world.ask(many(vec![json!({"x": 4}), json!({"x": 6})]));
    assert_eq!((&*decided(&answer, 0).outcome, &*decided(&answer, 1).outcome), ("pass", "pass"));
    let wanted = [true, false].map(|agrees| (Shadow::Policy, Shadowed::Compared { agrees, apart: 0.0 }));
    assert_eq!(world.lane.sink.1.borrow().shadowed, wanted);
}

#[test]
fn another_policy_agrees_by_the_outcome_s_name_wherever_it_stands() {
    let mut document = document();
    let mut other = document["policy"].clone();
    other["outcomes"] = json!(["well", "pass", "review", "reject"]);
    other["bands"] = json!([{"name": "pass", "to": 10}, {"name": "pass_too", "from": 10, "to": 20, "outcome": "pass"}, {"name": "reject", "from": 20}]);
    document["policy"]["shadow"] = other;
    let world = World::new(&[1], &document);
    let answer = world.ask(many(vec![json!({"x": 4}), json!({"x": 12})]));
    assert_eq!((&*decided(&answer, 0).outcome, &*decided(&answer, 1).outcome), ("pass", "review"));
    let wanted = [true, false].map(|agrees| (Shadow::Policy, Shadowed::Compared { agrees, apart: 0.0 }));
    assert_eq!(world.lane.sink.1.borrow().shadowed, wanted);
}

/// Queues work for shadows without rows: reading a row panics.
fn offer(world: &World, rows: usize) {
    let mut buffers = world.lane.services.buffers.lend();
    buffers.states.clear();
    buffers.states.resize_with(rows, || {
        let verdict = Verdict { outcome: 0, band: None, fired: Fired::new() };
        RowState::new(DecisionId(0), 0, Progress::Decided { verdict, score: Some(1.0) })
    });
    let routes = world.lane.plane.routes.load();
    shadow_walk::offer(&world.lane, routes.get("d").unwrap().decision.clone().unwrap(), buffers);
}

#[test]
fn a_shadow_that_panics_is_counted_as_failed_and_the_lane_goes_on() {
    let mut document = shadowed();
    document["policy"]["shadow"] = document["policy"].clone();
    document["policy"]["shadow"]["rules"] = json!([{"when": "x > 100", "then": "reject"}]);
    let world = World::new(&[1, 1], &document);
    offer(&world, 1);
    assert_eq!(&*decided(&world.ask(one(json!({"x": 1}))), 0).outcome, "pass");
    let well = Shadowed::Compared { agrees: true, apart: 0.0 };
    let wanted = [
        (Shadow::Policy, Shadowed::Failed),
        (Shadow::Variant, Shadowed::Failed),
        (Shadow::Policy, well),
        (Shadow::Variant, well),
    ];
    assert_eq!(world.lane.sink.1.borrow().shadowed, wanted);
}

#[test]
fn rows_that_wait_for_their_shadows_are_bounded_and_room_comes_back() {
    let world = World::new(&[1, 4], &shadowed());
    let dropped = || world.lane.sink.1.borrow().shadowed.len();
    for _ in 0..4 {
        offer(&world, 1024);
    }
    assert_eq!(dropped(), 0);
    offer(&world, 3);
    assert_eq!(world.lane.sink.1.borrow().shadowed, [(Shadow::Variant, Shadowed::Dropped); 3]);
    assert_eq!(&*decided(&world.ask(one(json!({"x": 1}))), 0).outcome, "pass");
    let before = dropped();
    offer(&world, 1024);
    assert_eq!(dropped(), before, "the others are gone");
}
