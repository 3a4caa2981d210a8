//! Features of a decision: windows that count each event once, and features from files.

use super::redis::{Redis, WINDOW, record};
use super::world::{Mood, World, decided, document, many, one};
use crate::idempotency::Known;
use crate::testing::Made;
use flyball_core::{CallerIndex, Digest, FaultKind, Remedy, RowOutcome};
use flyball_features::LookupError;
use serde_json::{Value as Json, json};

const MINUTE_MS: u64 = 60_000;

/// Rejects the third event of a key within a minute.
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

/// A world whose windows have run for their full length.
fn warm(offline: bool) -> World {
    let world = World::by(|services| services.offline = offline, Made::usual(), &[1], &counting());
    warmed(&world);
    world
}

fn warmed(world: &World) {
    decided(&world.ask(one(json!({"x": 1, "k": "the first of all"}))), 0);
    world.lane.plane.services.wall.advance_ms(2 * MINUTE_MS as i64);
    world.lane.plane.clock.advance(std::time::Duration::from_millis(2 * MINUTE_MS));
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
    assert_eq!(world.lane.plane.services.features.windows()[0].events, 0);
    let given = one(json!({"x": 1, "k": "a", "events": 3}));
    assert_eq!(&*decided(&world.ask(given), 0).outcome, "reject");
    let missing = json!({"x": 1, "k": "a", "events": null});
    assert_eq!(&*decided(&world.ask(one(missing.clone())), 0).outcome, "pass");
    assert!(warm(false).ask(one(missing)).is_err(), "an unknown field");
    let online = warm(false);
    assert!(online.ask(one(json!({"x": 1, "k": "a", "events": 3}))).is_err(), "an unknown field");
}

/// Windows and records are in Redis; a failed feature is read once more.
fn of_redis(url: &str, timeout_ms: u64) -> Json {
    let mut document = document();
    document["sources"] = json!({"s": {"kind": "redis", "url": url, "set": "s", "timeout_ms": timeout_ms}});
    document
}

fn shared_window(url: &str, timeout_ms: u64) -> Json {
    let mut document = of_redis(url, timeout_ms);
    document["features"] = json!([{
        "name": "events", "type": "float", "on_error": "fault",
        "window": {"op": "count", "by": "k", "last_ms": MINUTE_MS, "source": "s"},
    }]);
    document
}

#[test]
fn a_second_reading_asks_only_for_what_is_not_known_so_that_no_event_counts_itself() {
    let redis = Redis::says(vec!["-ERR no\r\n".to_owned(), record(r#"{"v": 1, "fields": {"limit": 5.0}}"#)]);
    let mut document = of_redis(&redis.url, 5000);
    document["input"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "c", "type": "string", "required": false, "key": true}));
    document["features"] = json!([
        {"name": "before", "type": "float",
         "window": {"op": "count", "by": "k", "last_ms": MINUTE_MS, "current": false}},
        {"name": "limit", "type": "float", "on_error": "fault",
         "lookup": {"source": "s", "key": "c", "field": "limit"}},
    ]);
    document["policy"]["rules"] = json!([
        {"when": "before == 0.0 && limit == 5.0", "then": "review", "reason": "R1"},
        {"when": "before >= 1.0", "then": "reject", "reason": "R2"},
    ]);
    document["remedies"] = json!({"feature_error": "retry"});
    let world = World::new(&[1], &document);
    warmed(&world);
    let row = decided(&world.ask(one(json!({"x": 1, "k": "a", "c": "c"}))), 0);
    assert_eq!((&*row.outcome, row.remedy.unwrap().remedy), ("review", Remedy::Retry));
    assert_eq!(redis.asked.lock().unwrap().len(), 2);
}

/// Whether the next attempt with the key would find its event counted.
fn counted(world: &World, key: &str, body: &Json) -> bool {
    let routes = world.lane.plane.routes.load();
    let decision = routes.get("d").unwrap().decision.as_ref().unwrap();
    let body = Digest::of(body.to_string().as_bytes());
    let claim = decision.answers.claim(
        (CallerIndex::NONE, key),
        body,
        world.lane.now(),
        decision.program.idempotency,
    );
    let Known::First(claim) = claim else { panic!("it was answered, or is under way") };
    claim.counted
}

#[test]
fn an_event_that_no_redis_can_have_written_is_new_to_the_next_attempt() {
    let row = json!({"x": 1, "k": "a"});
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("redis://{}", silent.local_addr().unwrap());
    let wrong = Redis::says(vec!["-ERR no\r\n".to_owned()]);
    let cases = [("redis://127.0.0.1:1", 5000, false), (&*silent, 5, true), (&*wrong.url, 5000, true)];
    for (url, timeout_ms, written) in cases {
        let world = World::new(&[1], &shared_window(url, timeout_ms));
        let fault = world.ask(one(row.clone()).keyed("key")).unwrap_err();
        assert_eq!(fault.kind, FaultKind::FeatureUnavailable);
        assert_eq!(counted(&world, "key", &row), written, "{}", fault.text);
    }
}

#[test]
fn a_retry_writes_the_event_that_the_first_reading_could_not() {
    let redis = Redis::says(vec!["-LOADING soon\r\n".to_owned(), WINDOW.to_owned()]);
    let mut document = shared_window(&redis.url, 5000);
    document["remedies"] = json!({"feature_error": "retry"});
    let world = World::new(&[1], &document);
    let row = decided(&world.ask(one(json!({"x": 1, "k": "a"}))), 0);
    assert_eq!(row.remedy.unwrap().remedy, Remedy::Retry);
    let asked = redis.asked.lock().unwrap();
    let said: Vec<_> = asked.iter().map(|command| (&*command[9], &*command[10])).collect();
    assert_eq!(said, [("1", "1"), ("1", "1")], "with the event itself, which is to be written");
}

#[test]
fn a_list_of_many_rows_asks_no_more_at_once_than_a_lane_may() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let world = World::new(&[1], &shared_window(&url, 1));
    let mut rows: Vec<_> = (0..4200).map(|key| json!({"x": 1, "k": format!("{key}")})).collect();
    rows.push(json!({"x": 1}));
    let answer = world.ask(many(rows)).unwrap();
    for row in &answer.rows[..4200] {
        let RowOutcome::Failed { text, .. } = &row.outcome else { panic!("{row:?}") };
        assert!(!text.contains(LookupError::Busy.label()), "{text}");
    }
}

#[test]
fn offline_nobody_is_asked_for_what_a_row_did_not_bring() {
    let redis = Redis::says(vec![record(r#"{"v": 1, "fields": {"limit": 5.0}}"#)]);
    let mut document = of_redis(&redis.url, 5000);
    document["features"] = json!([
        {"name": "events", "type": "float", "on_missing": {"value": 9.0},
         "window": {"op": "count", "by": "k", "last_ms": MINUTE_MS}},
        {"name": "limit", "type": "float", "on_missing": {"value": 9.0}, "on_error": "fault",
         "lookup": {"source": "s", "key": "k", "field": "limit"}},
    ]);
    document["policy"]["rules"] =
        json!([{"when": "events == 9.0 && limit == 9.0", "then": "reject", "reason": "R9"}]);
    let world = World::by(|services| services.offline = true, Made::usual(), &[1], &document);
    warmed(&world);
    assert_eq!(outcomes(&world, 2), ["reject"; 2]);
    let missing = one(json!({"x": 1, "k": "a", "events": null, "limit": 9.0}));
    assert_eq!(
        &*decided(&world.ask(missing), 0).outcome,
        "pass",
        "null is missing, whatever is declared for that"
    );
    assert!(redis.asked.lock().unwrap().is_empty());
}
