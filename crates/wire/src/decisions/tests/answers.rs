//! Responses in both forms agree, and no part of a decision is lost.

use super::{GrpcDecision, http, proto};
use crate::proto::decisions::decided_row::Result as Decided_;
use crate::{GrpcReply, frame};
use bytes::BytesMut;
use flyball_core::{
    Decided, DecidedBy, DecidedRow, DecisionDialect, DecisionId, Decisions, Digest, FaultKind, FieldFault,
    Reason, Remedied, Remedy, RowOutcome, Stage,
};
use prost::Message;
use serde_json::{Value, json};
use smallvec::smallvec;
use std::sync::Arc;
use std::time::Duration;

fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

fn plain() -> Decided {
    Decided {
        id: DecisionId::new(0x0192_f6c1_2345, 7),
        outcome: text("pass"),
        band: None,
        score: None,
        scores: smallvec![],
        reasons: smallvec![],
        variant: None,
        remedy: None,
    }
}

fn full() -> Decided {
    Decided {
        outcome: text("re\"view"),
        band: Some(text("middle")),
        score: Some(0.1 + 0.2),
        scores: smallvec![(text("a"), 0.25), (text("b"), -1e-300)],
        reasons: smallvec![
            Reason { code: text("R1"), text: Some(text("too many")), contribution: None },
            Reason { code: text("amount"), text: None, contribution: Some((text("amount"), 0.5)) },
        ],
        variant: Some(text("champion")),
        remedy: Some(Remedied {
            cause: FaultKind::DeadlinePassed,
            stage: Stage::Queue,
            remedy: Remedy::Rules,
        }),
        ..plain()
    }
}

fn decisions(single: bool, rows: Vec<DecidedRow>) -> Decisions {
    let by = DecidedBy { model: text("m"), version: text("1"), digest: Digest::of(b"m") };
    Decisions {
        decision: text("card"),
        single,
        rows,
        models: Arc::from([by]),
        document: Digest::of(b"d"),
        policy: Digest::of(b"p"),
        schema: Digest::of(b"s"),
        repeated: false,
        timings: None,
    }
}

fn row(id: Option<&str>, outcome: RowOutcome) -> DecidedRow {
    DecidedRow { id: id.map(Into::into), outcome }
}

fn as_json(decisions: &Decisions) -> Value {
    let reply = http().answer(decisions, &mut BytesMut::new()).expect("an answer");
    assert_eq!((reply.status, reply.content_type), (200, "application/json"));
    serde_json::from_slice(&reply.body).expect("JSON")
}

fn as_message(decisions: &Decisions) -> proto::DecideResponse {
    let reply = GrpcDecision::default().answer(decisions, &mut BytesMut::new()).expect("an answer");
    let GrpcReply::Frame(whole) = reply else { panic!("no frame") };
    proto::DecideResponse::decode(frame::decode(&whole).expect("one frame")).expect("prost reads it")
}

#[test]
fn a_single_decision_has_every_part_that_there_is() {
    let mut all = decisions(true, vec![row(None, RowOutcome::Decided(full()))]);
    all.repeated = true;
    let mut timings = [None; Stage::COUNT];
    timings[0] = Some(Duration::from_nanos(6_125));
    timings[9] = Some(Duration::ZERO);
    all.timings = Some(timings);
    let wanted = json!({
        "id": "0192f6c1-2345-7000-8000-000000000007", "decision": "card", "outcome": "re\"view", "band": "middle",
        "score": 0.1 + 0.2, "scores": {"a": 0.25, "b": -1e-300},
        "reasons": [{"code": "R1", "text": "too many"}, {"code": "amount", "field": "amount", "contribution": 0.5}],
        "route": "champion", "remedy": {"cause": "deadline_passed", "stage": "queue", "used": "rules"},
        "models": [{"model": "m", "version": "1", "digest": Digest::of(b"m").to_string()}],
        "document": Digest::of(b"d").to_string(),
        "policy": Digest::of(b"p").to_string(), "schema": Digest::of(b"s").to_string(),
        "repeated": true, "timings_us": {"parse": 6.125, "respond": 0.0},
    });
    assert_eq!(as_json(&all), wanted);
    let message = as_message(&all);
    let stages: Vec<_> = message.timings.iter().map(|time| (time.stage.as_str(), time.us)).collect();
    assert_eq!(stages, [("parse", 6.125), ("respond", 0.0)]);
    assert!(message.was_repeated);
    assert_eq!(
        [message.document, message.policy, message.schema],
        [b"d", b"p", b"s"].map(|part| Digest::of(part).to_string())
    );
    let Some(Decided_::Decision(decided)) = &message.rows[0].result else { panic!("not decided") };
    assert_eq!((decided.outcome.as_str(), decided.band.as_deref()), ("re\"view", Some("middle")));
    assert_eq!((decided.score, decided.scores["b"]), (Some(0.1 + 0.2), -1e-300));
    assert_eq!(decided.reasons[1].contribution, Some(0.5));
    assert_eq!(decided.reasons[0].text.as_deref(), Some("too many"));
    assert_eq!(decided.remedy.as_ref().map(|remedy| remedy.used.as_str()), Some("rules"));
}

#[test]
fn what_there_is_not_is_null_or_left_out() {
    let all = decisions(true, vec![row(None, RowOutcome::Decided(plain()))]);
    let answer = as_json(&all);
    for key in ["band", "score", "route", "remedy"] {
        assert_eq!(answer[key], Value::Null, "{key}");
    }
    assert_eq!(answer["reasons"], json!([]));
    for key in ["scores", "repeated", "timings_us", "rows"] {
        assert!(answer.get(key).is_none(), "{key}");
    }
    let Some(Decided_::Decision(decided)) = &as_message(&all).rows[0].result else { panic!("not decided") };
    assert_eq!((&decided.band, decided.score, &decided.route, &decided.remedy), (&None, None, &None, &None));
}

#[test]
fn rows_of_many_have_their_own_ids_and_their_own_faults() {
    let invalid = FieldFault { field: "x".into(), is: Some("[1]".into()), allowed: "a number".into() };
    let failed = RowOutcome::Failed {
        kind: FaultKind::GuardViolated,
        stage: Stage::Policy,
        text: "score is NaN".into(),
    };
    let rows = vec![
        row(Some("a"), RowOutcome::Decided(full())),
        row(Some("b"), RowOutcome::Invalid(vec![invalid])),
        row(None, failed),
    ];
    let all = decisions(false, rows);
    let answer = as_json(&all);
    assert_eq!(answer["rows"][0]["id"], "a");
    assert_eq!(answer["rows"][0]["decision_id"], "0192f6c1-2345-7000-8000-000000000007");
    assert_eq!(answer["rows"][0]["outcome"], "re\"view");
    assert_eq!(answer["rows"][1]["fault"]["type"], "urn:flyball:fault:fields_invalid");
    let field = json!([{"field": "x", "is": "[1]", "allowed": "a number"}]);
    assert_eq!(answer["rows"][1]["fault"]["faults"], field);
    assert_eq!(answer["rows"][2]["id"], Value::Null);
    assert_eq!(answer["rows"][2]["fault"]["status"], 500);
    assert_eq!(answer["decision"], "card");
    let message = as_message(&all);
    let Some(Decided_::Fault(fault)) = &message.rows[1].result else { panic!("no fault") };
    assert_eq!((message.rows[1].id.as_str(), fault.kind.as_str()), ("b", "fields_invalid"));
    assert_eq!((fault.faults[0].field.as_str(), fault.faults[0].is.as_deref()), ("x", Some("[1]")));
    let Some(Decided_::Fault(fault)) = &message.rows[2].result else { panic!("no fault") };
    assert_eq!((fault.kind.as_str(), fault.detail.as_str()), ("guard_violated", "score is NaN"));
}

#[test]
fn of_a_single_row_a_fault_is_the_requests_and_nothing_is_left_in_the_buffer() {
    let invalid = FieldFault { field: "x".into(), is: None, allowed: "a number".into() };
    let all = decisions(true, vec![row(None, RowOutcome::Invalid(vec![invalid]))]);
    let mut out = BytesMut::new();
    let faults = [
        http().answer(&all, &mut out).expect_err("a fault"),
        GrpcDecision::default().answer(&all, &mut out).expect_err("a fault"),
    ];
    for fault in faults {
        assert_eq!((fault.kind, fault.fields.len()), (FaultKind::FieldsInvalid, 1));
    }
    assert!(out.is_empty());
}

#[test]
fn a_score_that_json_cannot_say_is_a_fault_there_and_an_answer_over_grpc() {
    let all =
        decisions(true, vec![row(None, RowOutcome::Decided(Decided { score: Some(f64::NAN), ..plain() }))]);
    let fault = http().answer(&all, &mut BytesMut::new()).expect_err("a fault");
    assert_eq!(fault.kind, FaultKind::AnswerNotRepresentable);
    let Some(Decided_::Decision(decided)) = &as_message(&all).rows[0].result else { panic!("not decided") };
    assert!(decided.score.is_some_and(f64::is_nan));
}

#[test]
fn a_models_own_score_that_json_cannot_say_is_null_and_the_decision_is_told() {
    let decided = Decided {
        scores: smallvec![(text("a"), f64::INFINITY), (text("b"), f64::NAN), (text("c"), 0.5)],
        reasons: smallvec![Reason {
            code: text("R"),
            text: None,
            contribution: Some((text("x"), f64::INFINITY))
        }],
        ..full()
    };
    let answer = as_json(&decisions(true, vec![row(None, RowOutcome::Decided(decided))]));
    assert_eq!(answer["scores"], json!({"a": null, "b": null, "c": 0.5}));
    assert_eq!(answer["reasons"], json!([{"code": "R", "field": "x", "contribution": null}]));
    assert_eq!(answer["outcome"], "re\"view");
}

#[test]
fn the_size_of_an_answer_is_never_underestimated() {
    let odd = "\u{0}\"\u{1f}".repeat(500);
    let worst = Decided {
        outcome: text(&odd),
        scores: smallvec![(text(&odd), -1e-300), (text("b"), -1e-300)],
        reasons: smallvec![Reason {
            code: text(&odd),
            text: Some(text(&odd)),
            contribution: Some((text(&odd), -2.225_073_858_507_201_4e-308))
        }],
        ..full()
    };
    let invalid = FieldFault { field: odd.clone().into(), is: Some(odd.clone()), allowed: odd.clone() };
    let failed =
        RowOutcome::Failed { kind: FaultKind::RunMemoryExceeded, stage: Stage::Features, text: odd.clone() };
    let outcomes = [
        RowOutcome::Decided(worst),
        RowOutcome::Decided(full()),
        RowOutcome::Invalid(vec![invalid; 3]),
        failed,
    ];
    for count in [1, 100] {
        let rows = outcomes.iter().cycle().take(4 * count).map(|outcome| row(Some(&odd), outcome.clone()));
        let timings = Some([Some(Duration::from_nanos(123_456_789)); Stage::COUNT]);
        let all = Decisions { timings, ..decisions(false, rows.collect()) };
        let json = http().answer(&all, &mut BytesMut::new()).expect("an answer").body;
        assert!(json.len() <= all.size_max(), "{} > {}", json.len(), all.size_max());
        let reply = GrpcDecision::default().answer(&all, &mut BytesMut::new()).expect("an answer");
        let GrpcReply::Frame(frame) = reply else { panic!("a frame") };
        assert!(frame.len() <= all.size_max(), "{} > {}", frame.len(), all.size_max());
    }
}

#[test]
fn long_texts_and_many_rows_keep_their_lengths_in_protobuf() {
    let long = Decided { outcome: text(&"o".repeat(20_000)), ..full() };
    let rows = (0..1000).map(|n| row(Some(&n.to_string()), RowOutcome::Decided(long.clone()))).collect();
    let message = as_message(&decisions(false, rows));
    assert_eq!(message.rows.len(), 1000);
    for (n, row) in message.rows.iter().enumerate() {
        let Some(Decided_::Decision(decided)) = &row.result else { panic!("not decided") };
        assert_eq!((row.id.as_str(), decided.outcome.len()), (n.to_string().as_str(), 20_000));
    }
}
