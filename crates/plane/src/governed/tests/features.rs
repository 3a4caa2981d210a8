//! Features on their way into a decision: windows that count each event once, and what files bring along.

use super::world::{Mood, World, decided, document, one};
use crate::testing::Made;
use serde_json::{Value as Json, json};

const MINUTE_MS: u64 = 60_000;

/// Three events of a key within a minute are one too many.
fn counting() -> Json {
    let mut document = document();
    document["features"] = json!([
        {"name": "events", "type": "float", "window": {"op": "count", "by": "k", "last_ms": MINUTE_MS}},
        {"name": "twice", "type": "float", "compute": "events * 2.0"},
    ]);
    document["policy"]["rules"] =
        json!([{"when": "events >= 3.0 && twice >= 6.0", "then": "reject", "reason": "R3"}]);
    document
}

/// Its windows have seen all there was in their time.
fn warm(offline: bool) -> World {
    let world = World::by(|means| means.offline = offline, Made::usual(), &[1], &counting());
    decided(&world.ask(one(json!({"x": 1, "k": "the first of all"}))), 0);
    world.lane.plane.means.wall.advance_ms(2 * MINUTE_MS as i64);
    world.lane.plane.clock.advance(std::time::Duration::from_millis(2 * MINUTE_MS));
    world
}

fn outcomes(world: &World, rows: usize) -> Vec<String> {
    (0..rows).map(|_| decided(&world.ask(one(json!({"x": 1, "k": "a"}))), 0).outcome.to_string()).collect()
}

#[test]
fn a_window_counts_the_events_of_its_key_and_what_is_computed_follows() {
    let world = warm(false);
    assert_eq!(outcomes(&world, 4), ["pass", "pass", "reject", "reject"]);
    assert_eq!(&*decided(&world.ask(one(json!({"x": 1, "k": "b"}))), 0).outcome, "pass");
}

#[test]
fn a_window_that_is_still_warming_is_missing() {
    let world = World::new(&[1], &counting());
    assert_eq!(outcomes(&world, 4), ["pass"; 4]);
}

#[test]
fn a_retry_under_the_same_key_counts_its_event_once_although_the_first_attempt_failed() {
    let world = warm(false);
    let asked = || one(json!({"x": 1, "k": "a"})).keyed("key");
    world.puppets[0].is(Mood::Fails);
    for _ in 0..3 {
        assert!(world.ask(asked()).is_err());
    }
    world.puppets[0].is(Mood::Well);
    for _ in 0..3 {
        assert_eq!(&*decided(&world.ask(asked()), 0).outcome, "pass", "one event");
    }
    assert_eq!(outcomes(&world, 2), ["pass", "reject"], "the second and the third");
}

#[test]
fn offline_no_window_is_written_and_features_may_be_given() {
    let world = warm(true);
    assert_eq!(outcomes(&world, 4), ["pass"; 4]);
    assert_eq!(world.lane.plane.means.features.windows()[0].events, 0);
    let given = one(json!({"x": 1, "k": "a", "events": 3}));
    assert_eq!(&*decided(&world.ask(given), 0).outcome, "reject");
    let online = warm(false);
    assert!(online.ask(one(json!({"x": 1, "k": "a", "events": 3}))).is_err(), "an unknown field");
}
