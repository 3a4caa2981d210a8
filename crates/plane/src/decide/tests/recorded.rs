//! Decisions and their records: slots are reserved first, the contents of a record, and decisions without one.

use super::recorder::Book;
use super::world::{Asked, Mood, World, decided, document, many, model, one, variant};
use crate::testing::Made;
use flyball_core::{Decisions, Fault, FaultKind, RecordKind, Remedy, RowOutcome, Stage, Unavailable};
use serde_json::{Value as Json, json};

fn with(edit: impl FnOnce(&mut Json)) -> (World, Book) {
    let (book, mut document) = (Book::default(), document());
    edit(&mut document);
    let recorder = std::sync::Arc::new(book.clone());
    let world = World::by(|services| services.recorder = Some(recorder), Made::usual(), &[1, 2], &document);
    (world, book)
}

/// The declared durability, and the remedies for decisions that cannot be recorded.
pub(super) fn world(remedy: Json, record: Json) -> (World, Book) {
    with(|document| {
        document["remedies"] = json!({"record_error": remedy});
        document["record"] = record;
    })
}

fn buffered(remedy: Json) -> (World, Book) {
    world(remedy, json!({}))
}

pub(super) fn sync(remedy: Json) -> (World, Book) {
    world(remedy, json!({"durability": "sync"}))
}

pub(super) fn x(value: i64) -> Asked {
    one(json!({"x": value}))
}

/// Checks that every counted decision is recorded or in a gap.
pub(super) fn add_up(world: &World, book: &Book) {
    let seen = world.lane.sink.1.borrow();
    let decided = seen.decided.iter().filter(|row| row.outcome.is_some()).count();
    let recorded = book.recorded().len();
    let missed: usize = book.missed().iter().map(|(decisions, _)| decisions).sum();
    assert_eq!((decided, book.held()), (recorded + missed, 0), "{recorded} recorded, {missed} missed");
}

pub(super) fn ids(answer: &Result<Decisions, Fault>) -> Vec<String> {
    let rows = answer.as_ref().unwrap().rows.iter();
    rows.filter_map(|row| match &row.outcome {
        RowOutcome::Decided(decided) => Some(decided.id.to_string()),
        _ => None,
    })
    .collect()
}

#[test]
fn what_is_answered_is_what_was_recorded() {
    let (world, book) = buffered(json!("error"));
    let answer = world.ask(many(vec![json!({"x": 1, "k": "a"}), json!({"x": 300}), json!({"x": 7})]));
    let records = book.of(RecordKind::Decision);
    assert_eq!(records.iter().map(|record| record["id"].as_str().unwrap()).collect::<Vec<_>>(), ids(&answer));
    for (record, row) in records.iter().zip([0, 2]) {
        let row_answer = decided(&answer, row);
        assert_eq!(record["outcome"], json!(&*row_answer.outcome));
        assert_eq!(record["score"], json!(row_answer.score));
        assert_eq!(record["band"], json!(row_answer.band.as_deref()));
        assert_eq!(record["variant"], json!("champion"));
        assert_eq!(record["sync"], json!(false));
    }
    assert_eq!(records[0]["input"], json!({"x": 1, "k": "a"}));
    // The caller's id of a row is encrypted with the personal data, and omitted if it could not be erased.
    assert_eq!((&records[0]["personal"], records[1].get("personal")), (&json!({"row": "0"}), None));
    assert!(records.iter().all(|record| record.get("row").is_none()));
    assert_eq!(records[0]["subject"], json!("a"));
    assert_eq!((&records[1]["input"], &records[1]["subject"]), (&json!({"x": 7}), &json!("")));
    assert_eq!(records[1]["rules"], json!(["0"]));
    assert_eq!(records[1]["reasons"], json!([["R7", null, null]]));
    add_up(&world, &book);
}

#[test]
fn a_record_says_with_how_many_others_its_row_was_run_and_where_among_them() {
    let (world, book) = buffered(json!("error"));
    world.ask_all(vec![x(1), many(vec![json!({"x": 2}), json!({"x": 3})])]);
    let records = book.of(RecordKind::Decision);
    assert_eq!(*world.lane.sink.0.borrow(), [3], "they were run together");
    for (place, record) in records.iter().enumerate() {
        let score = place as f64 + 1.0;
        assert_eq!(record["batch"], json!([["a", 3, place]]));
        assert_eq!(record["scores"], json!({"a": score}));
        assert_eq!(record["outputs"], json!({"a": {"x": [score]}}));
    }
    assert_eq!((&records[0]["single"], &records[1]["single"]), (&json!(true), &json!(false)));
}

#[test]
fn without_a_place_nothing_is_computed() {
    let (world, book) = buffered(json!("error"));
    book.state().refusals.extend([Unavailable::Full, Unavailable::Behind]);
    let fault = world.ask(x(1).keyed("key")).unwrap_err();
    assert_eq!((fault.kind, fault.stage), (FaultKind::RecordFailed, Stage::Admit));
    assert!(fault.retry_after.is_some() && fault.text.contains("full"), "{fault:?}");
    assert!(world.ask(many(vec![json!({"x": 1}), json!({"x": 2})])).is_err());
    assert_eq!(world.puppets[0].runs(), 0);
    assert_eq!((book.offered(), book.missed().len()), (0, 0));
    assert_eq!(world.lane.sink.1.borrow().decided.len(), 3, "each row is counted");
    decided(&world.ask(x(1).keyed("key")), 0);
    add_up(&world, &book);
}

#[test]
fn what_is_declared_for_no_record_is_answered_and_stands_in_a_gap() {
    for (remedy, outcome, reasons) in
        [(json!({"outcome": "review"}), "review", vec![]), (json!("rules"), "reject", vec!["R7"])]
    {
        let (world, book) = buffered(remedy);
        book.state().refusals.push_back(Unavailable::Broken);
        let row = decided(&world.ask(x(7)), 0);
        assert_eq!(
            (&*row.outcome, row.score, row.remedy.unwrap().cause),
            (outcome, None, FaultKind::RecordFailed)
        );
        assert_eq!(row.reasons.iter().map(|reason| &*reason.code).collect::<Vec<_>>(), reasons);
        assert_eq!(book.missed(), [(1, Unavailable::Broken)]);
        assert_eq!(world.puppets[0].runs(), 0);
        add_up(&world, &book);
    }
}

#[test]
fn a_retry_asks_for_a_place_once_more_and_not_a_third_time() {
    let (world, book) = buffered(json!("retry"));
    book.state().refusals.push_back(Unavailable::Behind);
    let row = decided(&world.ask(x(1)), 0);
    assert_eq!((row.score, row.remedy.unwrap().remedy), (Some(1.0), Remedy::Retry));
    assert_eq!(book.of(RecordKind::Decision)[0]["remedy"], json!(["record_failed", "admit", "retry"]));
    book.state().refusals.extend([Unavailable::Behind; 2]);
    assert_eq!(world.ask(x(1)).unwrap_err().kind, FaultKind::RecordFailed);
    assert_eq!(world.puppets[0].runs(), 1);
    add_up(&world, &book);
}

#[test]
fn who_serves_unlogged_decides_as_ever_and_says_how_often() {
    for durability in ["buffered", "sync"] {
        let record = json!({"durability": durability, "when_unavailable": "serve_unlogged"});
        let (world, book) = world(json!("error"), record);
        book.state().refusals.push_back(Unavailable::Full);
        let answer = world.ask(many(vec![json!({"x": 1}), json!({"x": 300}), json!({"x": 2})]));
        assert_eq!((decided(&answer, 0).score, decided(&answer, 2).remedy), (Some(1.0), None));
        assert_eq!(book.missed(), [(2, Unavailable::Full)]);
        book.state().commits.push_back(Some(Unavailable::Broken));
        decided(&world.ask(x(1)), 0);
        assert_eq!(book.missed().len(), if durability == "sync" { 2 } else { 1 });
        decided(&world.ask(x(1)), 0);
    }
}

#[test]
fn a_decision_that_waits_for_the_disk_is_answered_once_it_is_there() {
    let (world, book) = sync(json!("error"));
    book.state().hangs = true;
    let answer = world.ask_while(x(1), |_| {
        let offered = book.offered() > 0;
        if offered {
            book.commit();
        }
        offered
    });
    assert_eq!(book.of(RecordKind::Decision)[0]["sync"], json!(true));
    assert_eq!(ids(&answer), [book.of(RecordKind::Decision)[0]["id"].as_str().unwrap()]);
    add_up(&world, &book);
}

#[test]
fn places_that_are_held_are_used_whatever_is_the_matter_with_the_journal_since() {
    let (world, book) = sync(json!("error"));
    book.state().hangs = true;
    world.hang_up(x(1), || {
        let offered = book.offered() == 1;
        if offered {
            book.state().refusals.push_back(Unavailable::Full);
        }
        offered
    });
    assert_eq!(book.of(RecordKind::Undelivered).len(), 1);
    assert_eq!((book.held(), book.state().orphans.len()), (0, 1));
}

#[test]
fn who_hangs_up_leaves_no_place_behind_and_a_decision_that_is_known_as_undelivered() {
    let (world, book) = sync(json!("error"));
    book.state().hangs = true;
    world.hang_up(many(vec![json!({"x": 1}), json!({"x": 300}), json!({"x": 2})]), || book.offered() == 2);
    let ids = |kind| book.of(kind).iter().map(|entry| entry["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(RecordKind::Undelivered), ids(RecordKind::Decision));
    assert_eq!(world.lane.sink.1.borrow().walks.len(), 1);
    add_up(&world, &book);
    // Nothing is decided yet, so there is nothing to record.
    let (world, book) = sync(json!("error"));
    world.hang_up(x(1), || book.held() > 0);
    assert_eq!((book.held(), book.offered()), (0, 0));
}

#[test]
fn rows_that_were_admitted_and_failed_leave_a_record_and_those_that_were_refused_before_do_not() {
    let (world, book) = buffered(json!("error"));
    world.puppets[0].fails_on(9);
    let answer = world.ask(many(vec![json!({"x": 1}), json!({"x": 9, "k": "a"}), json!({"x": 300})]));
    assert_eq!(ids(&answer).len(), 1);
    let failed = book.of(RecordKind::Failed);
    assert_eq!(failed.len(), 1);
    assert_eq!((&failed[0]["personal"], &failed[0]["subject"]), (&json!({"row": "1"}), &json!("a")));
    assert_eq!(failed[0]["input"], json!({"x": 9, "k": "a"}));
    let fault = failed[0]["fault"].as_array().unwrap();
    assert_eq!((&fault[0], &fault[1]), (&json!("run_failed"), &json!("infer")));
    assert!(failed[0].get("outcome").is_none());
    assert!(world.ask(x(9)).is_err());
    assert_eq!(book.of(RecordKind::Failed).len(), 2, "also where the whole request fails");
    assert!(world.ask(x(300)).is_err());
    assert_eq!(book.offered(), 3);
    add_up(&world, &book);
}

#[test]
fn every_way_to_a_decision_has_its_name() {
    let remedied = |remedy: Json| {
        with(|document| {
            document["models"] = json!([model("a", "1"), model("b", "2")]);
            document["variants"] = json!([variant("champion", &["a"]), variant("other", &["b"])]);
            document["route"] = json!({"fallback": "other"});
            document["remedies"] = json!({"model_unavailable": remedy});
        })
    };
    let way = |(world, book): &(World, Book)| {
        decided(&world.ask(x(1)), 0);
        let record = book.of(RecordKind::Decision).pop().unwrap();
        (record["route"].clone(), record["variant"].clone(), record["models"].as_array().unwrap().len())
    };
    assert_eq!(way(&remedied(json!("error"))), (json!("champion"), json!("champion"), 1));
    for (remedy, wanted) in [
        (json!("rules"), (json!("rules"), Json::Null, 0)),
        (json!({"outcome": "review"}), (json!("declared"), Json::Null, 0)),
        (json!("previous"), (json!("fallback"), json!("other"), 1)),
    ] {
        let made = remedied(remedy);
        made.0.puppets[0].is(Mood::Fails);
        assert_eq!(way(&made), wanted);
    }
    let killed = with(|document| {
        document["policy"]["kill_switch"] = json!({"outcome": "reject", "reason": "STOP"});
    });
    assert_eq!(way(&killed), (json!("kill_switch"), Json::Null, 0));
    killed.1.state().refusals.push_back(Unavailable::Full);
    assert!(killed.0.ask(x(1)).is_err(), "it is a decision like any other");
    let split = with(|document| {
        document["models"] = json!([model("a", "1"), model("b", "2")]);
        document["variants"] = json!([variant("champion", &["a"]), variant("other", &["b"])]);
        document["route"] = json!({"split": {"other": 1.0}});
    });
    assert_eq!(way(&split), (json!("split"), json!("other"), 1));
}

#[test]
fn what_is_personal_and_what_is_masked_is_not_in_the_input() {
    let (world, book) = with(|document| {
        document["input"].as_array_mut().unwrap().extend([
            json!({"name": "who", "type": "string", "pii": true}),
            json!({"name": "when", "type": "time"}),
            json!({"name": "hidden", "type": "float"}),
            json!({"name": "where", "type": "category", "values": ["CH", "AT"], "key": true}),
        ]);
        document["features"] = json!([
            {"name": "doubled", "type": "float", "compute": "hidden * 2.0"},
            {"name": "fourfold", "type": "float", "compute": "doubled * 2.0"},
            {"name": "known", "type": "bool", "compute": "has(k)"},
        ]);
        document["record"] = json!({"mask": ["hidden"]});
    });
    let row = json!({"x": 1, "k": "a", "who": "Ada", "when": -1.5, "hidden": 2.5, "where": "AT"});
    decided(&world.ask(one(row)), 0);
    let record = &book.of(RecordKind::Decision)[0];
    let when = json!([1001, {"1": -2, "-9": 500_000_000}]);
    assert_eq!(record["input"], json!({"x": 1, "k": "a", "when": when, "where": "AT"}));
    assert_eq!(record["personal"], json!({"input": {"who": "Ada"}}));
    assert_eq!(record["masked"], json!(["hidden"]));
    assert_eq!(record["subject"], json!("a\u{1f}AT"));
    // A value computed from a masked field would reveal it.
    assert_eq!(record["features"].as_object().unwrap().keys().collect::<Vec<_>>(), ["known"]);
    assert!(!record.to_string().contains("2.5"));
}

#[test]
fn features_that_are_made_of_what_is_personal_are_personal_too() {
    let (world, book) = with(|document| {
        document["input"].as_array_mut().unwrap().extend([
            json!({"name": "income", "type": "float", "pii": true}),
            json!({"name": "who", "type": "string", "pii": true}),
        ]);
        let window = |op: &str, of: Json, by: &str| json!({"op": op, "of": of, "by": by, "last_ms": 60_000});
        document["features"] = json!([
            {"name": "share", "type": "float", "compute": "income / 7.0"},
            {"name": "poor", "type": "bool", "compute": "share < 5.0"},
            {"name": "known", "type": "bool", "compute": "has(who)"},
            {"name": "earned", "type": "float", "on_missing": {"value": 0.0}, "window": window("sum", json!("income"), "k")},
            {"name": "events", "type": "float", "on_missing": {"value": 0.0}, "window": window("count", Json::Null, "who")},
            {"name": "twice", "type": "float", "compute": "events * 2.0"},
        ]);
    });
    decided(&world.ask(one(json!({"x": 1, "k": "a", "income": 14.0, "who": "Ada"}))), 0);
    let record = &book.of(RecordKind::Decision)[0];
    let names = |part: &Json| part.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&record["features"]), ["events", "twice"]);
    assert_eq!(names(&record["personal"]["features"]), ["earned", "known", "poor", "share"]);
    assert_eq!(record["personal"]["features"]["share"], json!([2.0, "computed", null]));
    assert_eq!(record["personal"]["input"], json!({"income": 14.0, "who": "Ada"}));
    assert_eq!(record["subject"], json!("a"));
}

#[test]
fn records_beyond_the_sample_say_what_was_decided_and_nothing_of_the_input() {
    let (world, book) = world(json!("error"), json!({"sample": 0.5}));
    for value in 0..64 {
        decided(&world.ask(one(json!({"x": value % 9, "k": "a"}))), 0);
    }
    let records = book.of(RecordKind::Decision);
    let (whole, rest): (Vec<_>, Vec<_>) = records.iter().partition(|record| record.get("sampled").is_none());
    assert!(whole.len() > 8 && rest.len() > 8, "{} whole", whole.len());
    for record in rest {
        assert_eq!((&record["sampled"], &record["subject"]), (&json!(false), &json!("")));
        assert!(["input", "features", "outputs"].iter().all(|key| record.get(key).is_none()));
        assert!(record["score"].is_number() && record["scores"].is_object());
    }
}

#[test]
fn a_repeat_leaves_no_record() {
    let (world, book) = buffered(json!("error"));
    let first = ids(&world.ask(x(1).keyed("key")));
    assert_eq!(ids(&world.ask(x(1).keyed("key"))), first);
    let records = book.of(RecordKind::Decision);
    assert_eq!((records.len(), &records[0]["key"]), (1, &json!("key")));
    add_up(&world, &book);
}

#[test]
fn what_ran_beside_a_decision_is_recorded_under_its_id_where_there_is_a_place() {
    let (world, book) = with(|document| {
        document["models"] = json!([model("a", "1"), model("b", "2")]);
        document["variants"] = json!([variant("champion", &["a"]), variant("beside", &["b"])]);
        document["route"] = json!({"shadow": ["beside"]});
    });
    let answer = world.ask(x(6));
    let shadow = &book.of(RecordKind::Shadow)[0];
    assert_eq!(json!(ids(&answer)), json!([shadow["id"]]));
    assert_eq!((&shadow["of"], &shadow["variant"]), (&json!("variant"), &json!("beside")));
    assert_eq!((&shadow["score"], &shadow["outcome"]), (&json!(12.0), &json!("review")));
    assert_eq!(shadow["agrees"], json!(false));
    add_up(&world, &book);
}

#[test]
fn records_that_are_demanded_need_somebody_who_keeps_them() {
    let mut demanding = document();
    let plain = World::new(&[1], &demanding);
    demanding["record"] = json!({});
    let refused = plain.reload(&demanding).unwrap_err();
    assert!(refused.contains("journal_folder"), "{refused}");
    let offline = World::by(|services| services.offline = true, Made::usual(), &[1], &demanding);
    decided(&offline.ask(x(1)), 0);
}
