//! Access to a decision's models by tensors, and the records of such calls.

use super::recorder::Book;
use super::world::{World, document};
use crate::find_decision;
use crate::stages::route::tensor_target;
use crate::tensor_record::TensorRecord;
use crate::testing::Made;
use crate::walk::Walk;
use crate::{exposed, ready, route};
use flyball_core::{
    Access, Fault, FaultKind, Granted, ModelRef, Protocol, RecordKind, Stage, Unavailable, Verb,
};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Duration;

fn access(rights: &[&str]) -> Access {
    let rights = rights.iter().map(|right| right.parse().unwrap()).collect();
    Access::granted(Arc::new(Granted { caller: "a".into(), rights }))
}

fn named(name: &str) -> ModelRef {
    ModelRef { name: name.into(), version: None }
}

fn exposing() -> Json {
    let mut document = document();
    document["expose"] = json!("tensors");
    document
}

fn recorded(book: &Book) -> World {
    let recorder = book.clone();
    World::by(|services| services.recorder = Some(Arc::new(recorder)), Made::usual(), &[1], &exposing())
}

fn kind<T>(found: Result<T, Fault>) -> Option<FaultKind> {
    found.err().map(|fault| fault.kind)
}

#[test]
fn a_model_that_serves_a_decision_is_reached_by_nobody_unless_it_is_exposed() {
    let world = World::new(&[1, 2], &document());
    let routes = world.lane.plane.routes.load();
    for all in [Access::default(), access(&["infer", "decide", "control", "metrics"])] {
        for version in [None, Some("1".into()), Some("2".into()), Some("9".into())] {
            let wanted = ModelRef { name: "d".into(), version };
            let drawn = tensor_target(&routes, &all, &wanted, 0);
            let fault = drawn.err().expect("it is refused");
            assert_eq!((fault.kind, fault.stage), (FaultKind::Forbidden, Stage::Route));
            assert!(fault.text.contains("call POST /v1/decisions/d"), "{}", fault.text);
            assert_eq!(kind(route(&routes, &all, &wanted)), Some(FaultKind::Forbidden));
        }
        assert_eq!(kind(exposed(&routes, &all, "d")), Some(FaultKind::Forbidden));
        assert_eq!(kind(ready(&routes, &all, &named("d"))), None, "whether it is ready is no secret");
    }
}

#[test]
fn what_a_caller_does_not_see_is_answered_like_what_is_not_there() {
    let world = World::new(&[1], &document());
    let routes = world.lane.plane.routes.load();
    let text = |access: &Access, name: &str| route(&routes, access, &named(name)).err().unwrap().text;
    let other = access(&["infer:price*", "metrics"]);
    assert_eq!(text(&other, "d").replace("'d'", "'x'"), text(&other, "x"));
    assert_eq!(
        text(&other, "x"),
        "Request for unknown model: 'x' is not found",
        "nothing that it may see serves"
    );
    assert_eq!(text(&Access::default(), "x"), "Request for unknown model: 'x' is not found; serving: d");
    assert_eq!(kind(find_decision(&routes, &other, "d")), Some(FaultKind::DecisionNotFound));
    assert_eq!(kind(find_decision(&routes, &access(&["outcome:d"]), "d")), None, "it sees the decision");
    assert_eq!(kind(access(&["outcome:d"]).require(Verb::Decide, "d")), Some(FaultKind::Forbidden));
}

#[test]
fn an_exposed_model_is_reached_by_those_who_may_infer() {
    let world = recorded(&Book::default());
    let routes = world.lane.plane.routes.load();
    let drawn = |access: &Access| kind(tensor_target(&routes, access, &named("d"), 0));
    assert_eq!(drawn(&access(&["infer:d"])), None);
    assert_eq!(drawn(&Access::default()), None);
    assert_eq!(drawn(&access(&["decide:d"])), Some(FaultKind::Forbidden));
    assert_eq!(drawn(&access(&["infer:e"])), Some(FaultKind::ModelNotFound));
}

#[test]
fn tensors_are_recorded_or_refused_and_a_place_that_is_not_used_is_given_back() {
    let book = Book::default();
    let world = recorded(&book);
    let routes = world.lane.plane.routes.load();
    let found = || tensor_target(&routes, &Access::default(), &named("d"), 0).unwrap();
    let walk = Walk::begin(&world.lane, Protocol::Http, Duration::ZERO);
    let record = TensorRecord::reserve(&world.lane, found().decision).unwrap().expect("there is a recorder");
    assert_eq!(book.held(), 1);
    record.with_inputs(&[]).offer(&found().model, &walk);
    let records = book.of(RecordKind::Tensors);
    assert_eq!(
        (records.len(), &records[0]["decision"], &records[0]["protocol"]),
        (1, &json!("d"), &json!("http"))
    );
    drop(TensorRecord::reserve(&world.lane, found().decision).unwrap());
    assert_eq!((book.held(), book.offered()), (0, 1));
    book.state().refusals.push_back(Unavailable::Full);
    assert_eq!(kind(TensorRecord::reserve(&world.lane, found().decision)), Some(FaultKind::RecordFailed));
}

#[test]
fn a_server_that_records_nothing_refuses_to_expose_tensors() {
    let world = World::new(&[1], &document());
    assert!(world.reload(&exposing()).unwrap_err().contains("journal_folder"));
}
