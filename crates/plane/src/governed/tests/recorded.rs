//! Decisions that are offered to whoever keeps them, who may refuse.

use super::world::{World, decided, document, many, one};
use crate::testing::Made;
use flyball_core::{Decisions, FaultKind, Recorder, Remedy, Stage};
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex};

/// Refuses so many times, then keeps.
#[derive(Default)]
struct Reluctant {
    refusals: Mutex<usize>,
    kept: Mutex<Vec<Decisions>>,
}

impl Recorder for Reluctant {
    fn offer(&self, decisions: &Decisions) -> Result<(), String> {
        let mut refusals = self.refusals.lock().unwrap();
        if *refusals > 0 {
            *refusals -= 1;
            return Err("the disk is full".to_owned());
        }
        self.kept.lock().unwrap().push(decisions.clone());
        Ok(())
    }
}

fn world(refusals: usize, remedy: Json) -> (World, Arc<Reluctant>) {
    let recorder = Arc::new(Reluctant { refusals: refusals.into(), ..Reluctant::default() });
    let mut document = document();
    document["remedies"] = json!({"record_error": remedy});
    let offered = Arc::clone(&recorder);
    let world = World::by(|means| means.recorder = Some(offered), Made::usual(), &[1], &document);
    (world, recorder)
}

#[test]
fn what_is_answered_is_what_was_recorded() {
    let (world, recorder) = world(0, json!("reject"));
    let answer = world.ask(many(vec![json!({"x": 1}), json!({"x": -1})])).unwrap();
    assert_eq!(*recorder.kept.lock().unwrap(), [answer]);
}

#[test]
fn a_decision_that_cannot_be_recorded_is_refused_or_is_what_was_declared() {
    let (refusing, recorder) = world(1, json!("reject"));
    let fault = refusing.ask(one(json!({"x": 1})).keyed("key")).unwrap_err();
    assert_eq!((fault.kind, fault.stage), (FaultKind::RecordFailed, Stage::Record));
    assert_eq!(refusing.lane.sink.1.borrow().decided[0].outcome, None);
    assert!(recorder.kept.lock().unwrap().is_empty());
    let (reviewing, _) = world(1, json!({"outcome": "review"}));
    let row = decided(&reviewing.ask(one(json!({"x": 1}))), 0);
    assert_eq!((&*row.outcome, row.score, row.remedy.unwrap().remedy), ("review", None, Remedy::Outcome));
    assert_eq!(reviewing.lane.sink.1.borrow().decided.len(), 1, "counted once");
}

#[test]
fn a_retry_offers_once_more() {
    let (stumbling, recorder) = world(1, json!("retry"));
    let row = decided(&stumbling.ask(one(json!({"x": 1}))), 0);
    assert_eq!((row.score, row.remedy.unwrap().remedy), (Some(1.0), Remedy::Retry));
    assert_eq!(recorder.kept.lock().unwrap().len(), 1);
    let (failing, _) = world(2, json!("retry"));
    assert_eq!(failing.ask(one(json!({"x": 1}))).unwrap_err().kind, FaultKind::RecordFailed);
}

#[test]
fn the_reasons_are_those_of_what_the_remedy_decided() {
    for (remedy, reasons) in [(json!({"outcome": "review"}), vec![]), (json!("rules"), vec!["R7"])] {
        let (reviewing, _) = world(1, remedy);
        let row = decided(&reviewing.ask(one(json!({"x": 7}))), 0);
        assert_eq!(row.reasons.iter().map(|reason| &*reason.code).collect::<Vec<_>>(), reasons);
    }
}
