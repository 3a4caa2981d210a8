//! Offered records of a request of which some or all do not reach the disk: the answers, and that decisions made == records +
//! gaps, whatever fails.

use super::recorded::{add_up, ids, sync, world, x};
use super::recorder::Book;
use super::world::{World, decided, many};
use flyball_core::{Decisions, Fault, FaultKind, RecordKind, Remedy, RowOutcome, Stage, Ticket, Unavailable};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

#[test]
fn a_record_that_is_lost_on_its_way_is_refused_or_is_another_decision() {
    let (refusing, book) = sync(json!("error"));
    book.state().commits.push_back(Some(Unavailable::Broken));
    let fault = refusing.ask(x(1)).unwrap_err();
    assert_eq!((fault.kind, fault.stage), (FaultKind::RecordFailed, Stage::Record));
    assert_eq!(refusing.lane.sink.1.borrow().decided[0].outcome, None);
    assert_eq!((book.held(), book.missed().len()), (0, 0));

    let (reviewing, book) = sync(json!({"outcome": "review"}));
    book.state().commits.push_back(Some(Unavailable::Broken));
    let row = decided(&reviewing.ask(x(1)), 0);
    assert_eq!((&*row.outcome, row.score, row.remedy.unwrap().stage), ("review", None, Stage::Record));
    assert_ne!(json!(row.id.to_string()), book.of(RecordKind::Decision)[0]["id"]);
    assert_eq!(book.missed(), [(1, Unavailable::Broken)]);
    assert_eq!(reviewing.lane.sink.1.borrow().decided.len(), 1, "counted once");

    let (stumbling, book) = sync(json!("retry"));
    book.state().commits.push_back(Some(Unavailable::Broken));
    let row = decided(&stumbling.ask(x(1)), 0);
    assert_eq!((row.score, row.remedy.unwrap().remedy), (Some(1.0), Remedy::Retry));
    let again = &book.of(RecordKind::Decision)[1];
    assert_eq!((&again["id"], &again["remedy"][2]), (&json!(row.id.to_string()), &json!("retry")));
    book.state().commits.extend([Some(Unavailable::Broken); 2]);
    assert_eq!(stumbling.ask(x(1)).unwrap_err().kind, FaultKind::RecordFailed);
    add_up(&stumbling, &book);
}

/// Three rows are decided, and the record of only one reaches the disk.
fn partly(remedy: Json, record: Json, kept: usize) -> (World, Book, Result<Decisions, Fault>) {
    let (world, book) = world(remedy, record);
    let fate = |row| (row != kept).then_some(Unavailable::Full);
    book.state().commits.extend((0..3).map(fate));
    let answer = world.ask(many((1..4).map(|x| json!({"x": x})).collect()));
    add_up(&world, &book);
    (world, book, answer)
}

#[test]
fn of_a_request_whose_records_are_partly_lost_only_those_rows_are_refused() {
    for kept in 0..3 {
        let (_, book, answer) = partly(json!("error"), json!({"durability": "sync"}), kept);
        assert_eq!(json!(ids(&answer)), json!([book.recorded()[0]["id"]]), "{kept}");
        for (row, found) in answer.unwrap().rows.iter().enumerate().filter(|(row, _)| *row != kept) {
            let RowOutcome::Failed { kind, stage, .. } = found.outcome else {
                panic!("row {row}: {found:?}")
            };
            assert_eq!((kind, stage), (FaultKind::RecordFailed, Stage::Record));
        }
        assert_eq!(book.missed(), []);
    }
}

#[test]
fn of_a_request_whose_records_are_partly_lost_only_those_rows_stand_in_a_gap() {
    let unlogged = json!({"durability": "sync", "when_unavailable": "serve_unlogged"});
    for (remedy, record) in
        [(json!("error"), unlogged), (json!({"outcome": "review"}), json!({"durability": "sync"}))]
    {
        for kept in 0..3 {
            let (_, book, answer) = partly(remedy.clone(), record.clone(), kept);
            assert_eq!(json!(ids(&answer)[kept]), book.recorded()[0]["id"], "{kept}");
            assert_eq!(book.missed().iter().map(|(decisions, _)| decisions).sum::<usize>(), 2);
        }
    }
}

#[test]
fn what_is_on_the_disk_is_not_offered_a_second_time() {
    for kept in 0..3 {
        let (_, book, answer) = partly(json!("retry"), json!({"durability": "sync"}), kept);
        let recorded: Vec<_> = book.recorded().iter().map(|record| record["id"].clone()).collect();
        let answered = ids(&answer);
        assert!(answered.iter().all(|id| recorded.contains(&json!(id))), "{kept}");
        assert_eq!((answered.len(), recorded.len()), (3, 3), "each once: {kept}");
        assert_eq!(book.of(RecordKind::Decision).len(), 5);
    }
}

#[test]
fn a_disk_that_never_answers_is_waited_for_and_then_the_decision_is_known_as_undelivered() {
    let (world, book) = sync(json!("error"));
    book.state().hangs = true;
    let fault = world.ask(x(1)).unwrap_err();
    assert_eq!((fault.kind, fault.stage), (FaultKind::RecordFailed, Stage::Record));
    assert_eq!(book.of(RecordKind::Undelivered)[0]["id"], book.of(RecordKind::Decision)[0]["id"]);
    assert_eq!(book.state().orphans, [Ticket(1)], "if it is lost, it is in a gap");
    add_up(&world, &book);
}

#[test]
fn who_serves_unlogged_on_a_disk_that_never_answers_leaves_it_to_the_journal_to_count_what_it_loses() {
    let record = json!({"durability": "sync", "when_unavailable": "serve_unlogged"});
    let (world, book) = world(json!("error"), record);
    book.state().hangs = true;
    let answer = world.ask(x(1));
    assert_eq!(ids(&answer), [book.of(RecordKind::Decision)[0]["id"].as_str().unwrap()]);
    assert_eq!((book.missed(), &book.state().orphans[..]), (vec![], &[Ticket(1)][..]));
    assert_eq!(book.of(RecordKind::Undelivered), [] as [Json; 0]);
    add_up(&world, &book);
}

#[derive(Clone, Debug)]
struct Step {
    rows: Vec<i64>,
    refused: Option<Unavailable>,
    /// Of records, as they are offered.
    lost: Vec<Option<Unavailable>>,
    hangs_up: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let why = || prop::option::weighted(0.3, prop::sample::select(&Unavailable::ALL[..]));
    let rows = prop::collection::vec(prop_oneof![0..20_i64, Just(99), Just(300)], 1..6);
    let lost = prop::collection::vec(why(), 0..8);
    (rows, why(), lost, prop::bool::weighted(0.2)).prop_map(|(rows, refused, lost, hangs_up)| Step {
        rows,
        refused,
        lost,
        hangs_up,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decisions_are_recorded_or_missed_whatever_fails(
        steps in prop::collection::vec(step(), 1..8),
        remedy in prop::sample::select(
            vec![json!("error"), json!("shed"), json!("rules"), json!("retry"), json!({"outcome": "review"})]
        ),
        unlogged: bool,
        sync: bool,
    ) {
        let record = json!({
            "durability": if sync { "sync" } else { "buffered" },
            "when_unavailable": if unlogged { "serve_unlogged" } else { "fail_closed" },
        });
        let (world, book) = world(remedy, record);
        world.puppets[0].fails_on(99);
        for step in steps {
            let rows: Vec<_> = step.rows.iter().map(|value| json!({"x": value})).collect();
            let before = book.of(RecordKind::Decision).len();
            book.state().refusals.extend(step.refused);
            book.state().commits = step.lost.into();
            if step.hangs_up && sync && step.refused.is_none() && step.rows.iter().any(|row| *row < 20) {
                book.state().hangs = true;
                world.hang_up(many(rows), || book.of(RecordKind::Decision).len() > before);
                book.state().hangs = false;
            } else {
                let _ = world.ask(many(rows));
            }
            add_up(&world, &book);
        }
    }
}
