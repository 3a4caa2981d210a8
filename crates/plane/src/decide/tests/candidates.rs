//! A candidate of a decision: a share of the rows, or a shadow of all of them.

use super::world::{World, decided, document, many, model, one};
use flyball_core::{Decisions, Fault, Shadow, Shadowed};
use serde_json::{Value as Json, json};

fn sticky() -> Json {
    let mut document = document();
    document["route"] = json!({"sticky": "k"});
    document
}

/// The same decision by the model of version 2.
fn theirs() -> Json {
    let mut document = sticky();
    document["models"] = json!([model("a", "2")]);
    document
}

/// Version 1 gives its input, version 2 four times that.
fn trying(share: f64, shadow: bool) -> World {
    let world = World::new(&[1, 4], &sticky());
    world.tries(&sticky(), json!({"share": share, "shadow": shadow, "decision": theirs()})).unwrap();
    world
}

fn keyed(keys: std::ops::Range<usize>) -> Vec<Json> {
    keys.map(|key| json!({"x": 2, "k": format!("key-{key}")})).collect()
}

fn variants(answer: &Result<Decisions, Fault>, rows: usize) -> Vec<String> {
    (0..rows)
        .map(|row| decided(answer, row).variant.map_or_else(String::new, |name| name.to_string()))
        .collect()
}

#[test]
fn a_candidate_decides_its_share_and_a_key_stays_with_whoever_decided_it() {
    let world = trying(0.25, false);
    let (first, second) = (world.ask(many(keyed(0..200))), world.ask(many(keyed(0..200))));
    assert_eq!(variants(&first, 200), variants(&second, 200));
    let mut tried = 0;
    for row in 0..200 {
        let row = decided(&first, row);
        let candidate = row.variant.as_deref() == Some("candidate");
        assert_eq!(row.score, Some(if candidate { 8.0 } else { 2.0 }));
        tried += usize::from(candidate);
    }
    // 200 keys at 0.25: 50, and five standard deviations are 31. Which keys they are is the same on every machine.
    assert!(tried.abs_diff(50) < 31, "{tried}");
    let models: Vec<_> = first.unwrap().models.iter().map(|by| by.version.to_string()).collect();
    assert_eq!(models, ["1", "2"], "the answer names both, for both decided some of its rows");
}

#[test]
fn a_larger_share_leaves_those_who_had_the_candidate_with_it() {
    let world = trying(0.1, false);
    let before = variants(&world.ask(many(keyed(0..200))), 200);
    world.tries(&sticky(), json!({"share": 0.4, "shadow": false, "decision": theirs()})).unwrap();
    let after = variants(&world.ask(many(keyed(0..200))), 200);
    let had = |variants: &[String]| variants.iter().filter(|name| *name == "candidate").count();
    assert!(before.iter().zip(&after).all(|(before, after)| before != "candidate" || after == "candidate"));
    assert!(had(&before) > 0 && had(&after) > had(&before), "{} then {}", had(&before), had(&after));
}

#[test]
fn a_candidate_in_the_shadow_is_compared_and_is_never_in_an_answer() {
    let world = trying(1.0, true);
    let answer = world.ask(many(keyed(0..50)));
    assert!((0..50).all(|row| decided(&answer, row).score == Some(2.0)));
    assert!(variants(&answer, 50).iter().all(|name| name != "candidate"));
    assert_eq!(answer.unwrap().models.len(), 1);
    let wanted = vec![(Shadow::Variant, Shadowed::Compared { agrees: true, apart: 6.0 }); 50];
    assert_eq!(world.lane.sink.1.borrow().shadowed, wanted);
}

#[test]
fn what_differs_in_more_than_its_models_is_refused_and_what_serves_goes_on() {
    let world = World::new(&[1, 4], &sticky());
    let mut strict = theirs();
    strict["policy"]["bands"][0]["to"] = json!(5);
    let why = world.tries(&sticky(), json!({"share": 0.1, "shadow": false, "decision": strict})).unwrap_err();
    assert!(why.contains("candidate: policy.bands[0].to is 5") && why.contains("models alone"), "{why}");
    let why = world.tries(&sticky(), json!({"share": 0.1, "shadow": false})).unwrap_err();
    assert!(why.contains("against a decision"), "{why}");
    assert_eq!(decided(&world.ask(one(json!({"x": 2}))), 0).score, Some(2.0));
}
