//! Requests for decisions when nothing fails.

use super::world::{World, decided, document, many, one};
use crate::decision_walk::DecisionWalk;
use crate::row_buffers::{Progress, RowState};
use crate::testing::WALL_MS;
use crate::walk::Walk;
use flyball_core::{
    DecisionId, FaultKind, Outcome, Protocol, RowOutcome, RowSink, RowsOptions, Scalar, Stage,
};
use serde_json::json;
use std::time::Duration;

#[test]
fn a_row_gets_the_outcome_of_its_band_with_who_decided_it() {
    let world = World::new(&[2], &document());
    let answer = world.ask(one(json!({"x": 6})));
    let row = decided(&answer, 0);
    assert_eq!((&*row.outcome, row.band.as_deref(), row.score), ("review", Some("review"), Some(12.0)));
    assert_eq!((row.variant.as_deref(), row.remedy, row.scores.len()), (Some("champion"), None, 0));
    assert_eq!(row.id.0 >> 80, WALL_MS as u128);
    let answer = answer.unwrap();
    assert_eq!((&*answer.models[0].model, &*answer.models[0].version), ("a", "1"));
    assert!(answer.single && !answer.repeated && answer.timings.is_none());
}

#[test]
fn a_rule_is_more_severe_than_its_band_and_says_why() {
    let world = World::new(&[1], &document());
    let row = decided(&world.ask(one(json!({"x": 7}))), 0);
    assert_eq!((&*row.outcome, row.band.as_deref()), ("reject", Some("pass")));
    assert_eq!(row.reasons.iter().map(|reason| &*reason.code).collect::<Vec<_>>(), ["R7"]);
}

#[test]
fn one_row_that_is_invalid_is_refused_with_its_fields_and_runs_nothing() {
    let world = World::new(&[1], &document());
    let fault = world.ask(one(json!({"x": -1, "y": 2}))).unwrap_err();
    assert_eq!(fault.kind, FaultKind::FieldsInvalid);
    assert_eq!(fault.fields.iter().map(|fault| &*fault.field).collect::<Vec<_>>(), ["x", "y"]);
    assert_eq!(world.puppets[0].runs(), 0);
    assert_eq!(world.lane.sink.1.borrow().walks[0].outcome, Outcome::Refused);
}

#[test]
fn in_a_list_the_invalid_rows_take_no_part_and_the_others_run_together() {
    let world = World::new(&[1], &document());
    let rows = [json!({"x": 1}), json!({"x": "?"}), json!({"x": 15}), json!({})];
    let answer = world.ask(many(rows.to_vec()));
    assert_eq!(*world.puppets[0].given.lock().unwrap(), [vec![1, 15]]);
    assert_eq!((&*decided(&answer, 0).outcome, &*decided(&answer, 2).outcome), ("pass", "review"));
    let rows = answer.unwrap().rows;
    assert!(matches!(&rows[1].outcome, RowOutcome::Invalid(faults) if &*faults[0].field == "x"));
    assert!(matches!(&rows[3].outcome, RowOutcome::Invalid(_)));
    assert_eq!(rows[2].id.as_deref(), Some("2"));
    let seen = world.lane.sink.1.borrow();
    let outcomes: Vec<_> = seen.decided.iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Some(0), None, Some(1), None]);
    assert_eq!((seen.walks[0].outcome, seen.walks[0].rows), (Outcome::Answered, 2));
}

#[test]
fn more_rows_than_a_batch_may_have_run_in_several_and_keep_their_order() {
    let world = World::new(&[1], &document());
    let answer = world.ask(many((0..150).map(|x| json!({"x": x})).collect()));
    assert_eq!(world.puppets[0].given.lock().unwrap().iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 22]);
    for row in 0..150 {
        assert_eq!(decided(&answer, row).score, Some(row as f64));
    }
}

#[test]
fn the_stages_take_all_of_the_time_however_many_runs_there_were() {
    let world = World::new(&[1], &document());
    let asked = many((0..150).map(|x| json!({"x": x})).collect()).with(|ask| ask.timings = true);
    let timings = world.ask(asked).unwrap().timings.unwrap();
    assert_eq!(timings[Stage::Infer.index()], Some(Duration::from_micros(15)));
    let seen = world.lane.sink.1.borrow();
    let sum: Duration = seen.walks[0].stages.into_iter().flatten().sum();
    assert_eq!((sum, seen.walks[0].total), (Duration::from_micros(15), Duration::from_micros(15)));
    assert!(seen.walks[0].stages.iter().all(Option::is_some), "{:?}", seen.walks[0].stages);
}

#[test]
fn what_is_not_a_decision_or_not_here_is_not_found() {
    let world = World::new(&[1], &document());
    world.lane.plane.routes.store(std::sync::Arc::default());
    let fault = world.ask(one(json!({"x": 1}))).unwrap_err();
    assert_eq!((fault.kind, fault.stage), (FaultKind::DecisionNotFound, Stage::Route));
}

#[test]
fn a_document_with_faults_is_refused_and_the_last_good_one_goes_on() {
    let world = World::new(&[1], &document());
    let mut wrong = document();
    wrong["policy"]["rules"][0]["when"] = json!("z == 7");
    wrong["policy"]["bands"][1]["to"] = json!(19);
    let refused = world.reload(&wrong).unwrap_err();
    assert!(refused.contains("policy.rules[0].when") && refused.contains("policy.bands"), "{refused}");
    assert_eq!(&*decided(&world.ask(one(json!({"x": 1}))), 0).outcome, "pass");
}

#[test]
fn while_the_kill_switch_is_set_no_model_runs_and_the_answer_says_why() {
    let mut killed = document();
    killed["policy"]["kill_switch"] = json!({"outcome": "review", "reason": "R0"});
    let world = World::new(&[1], &killed);
    let answer = world.ask(many(vec![json!({"x": 1}), json!({"x": -1})]));
    let row = decided(&answer, 0);
    assert_eq!((&*row.outcome, row.score, &*row.reasons[0].code), ("review", None, "R0"));
    let answer = answer.unwrap();
    assert!(answer.models.is_empty() && matches!(answer.rows[1].outcome, RowOutcome::Invalid(_)));
    assert_eq!(world.puppets[0].runs(), 0);
}

#[test]
fn a_row_on_which_the_model_fails_fails_alone() {
    let world = World::new(&[1], &document());
    world.puppets[0].fails_on(13);
    let answer = world.ask(many(vec![json!({"x": 1}), json!({"x": 13}), json!({"x": 15})]));
    assert_eq!((&*decided(&answer, 0).outcome, &*decided(&answer, 2).outcome), ("pass", "review"));
    let failed = &answer.unwrap().rows[1].outcome;
    assert!(matches!(failed, RowOutcome::Failed { kind: FaultKind::RunFailed, .. }), "{failed:?}");
    assert_eq!(*world.puppets[0].given.lock().unwrap(), [vec![1, 13, 15], vec![1], vec![13], vec![15]]);
}

#[test]
fn while_the_kill_switch_is_set_an_invalid_row_meets_its_remedy_and_no_model_runs() {
    let mut killed = document();
    killed["policy"]["kill_switch"] = json!({"outcome": "review", "reason": "R0"});
    killed["remedies"] = json!({"invalid_input": {"outcome": "reject"}});
    let world = World::new(&[1], &killed);
    let answer = world.ask(many(vec![json!({"x": 1}), json!({"x": -1})]));
    let rows = [decided(&answer, 0), decided(&answer, 1)];
    assert_eq!(rows.each_ref().map(|row| &*row.outcome), ["review", "reject"]);
    assert_eq!(rows[1].remedy.unwrap().cause, FaultKind::FieldsInvalid);
    assert!(rows[1].reasons.is_empty(), "the kill switch is not why");
    assert_eq!(world.puppets[0].runs(), 0);
}

#[test]
fn a_long_list_lets_others_of_its_lane_have_their_turns() {
    let mut document = document();
    document["policy"]["guards"] = json!([{"of": "x", "max": 50}]);
    let world = World::new(&[1], &document);
    let turns = std::cell::Cell::new(0);
    // No row passes its guard, so that nothing else waits.
    let answer = world.ask_while(many(vec![json!({"x": 51}); 640]), |lane| {
        turns.set(turns.get() + 1);
        !lane.sink.1.borrow().walks.is_empty()
    });
    assert_eq!(answer.unwrap_err().kind, FaultKind::GuardViolated);
    assert!(turns.get() >= 27, "{}", turns.get());
}

#[test]
fn a_row_that_came_to_no_decision_is_a_fault_of_its_own_and_no_panic() {
    let world = World::new(&[1], &document());
    let routes = world.lane.plane.routes.load();
    let decision = routes.get("d").unwrap().decision.as_ref().unwrap();
    for single in [true, false] {
        let mut buffers = world.lane.services.buffers.lend();
        decision.program.begin(&mut buffers.rows);
        let mut reader = decision.program.reader(&mut buffers.rows);
        reader.row(None);
        reader.field("x", Scalar::Int(1));
        reader.finish();
        buffers.states.clear();
        buffers.states.push(RowState::new(DecisionId(0), 0, Progress::Open));
        let ask = RowsOptions { single, ..RowsOptions::default() };
        let walk = Walk::begin(&world.lane, Protocol::Http, Duration::ZERO);
        match DecisionWalk::new(&world.lane, decision, &ask, buffers, None).answer(&walk) {
            Err(fault) => assert!(single && fault.kind == FaultKind::Panicked),
            Ok(answer) => {
                let row = &answer.rows[0].outcome;
                assert!(
                    !single && matches!(row, RowOutcome::Failed { kind: FaultKind::Panicked, .. }),
                    "{row:?}"
                );
            }
        }
    }
}
