//! Annotation bodies: accepted ones, and each kind of error.

use super::*;
use serde_json::json;

const ID: &str = "01a8b0c4-7f2e-7c11-9d5e-3f6f0c8a1b2d";

fn detail<T: std::fmt::Debug>(result: Result<T, Fault>) -> String {
    result.expect_err("it is refused").text.into_owned()
}

#[test]
fn what_is_wrong_is_named() {
    let wrong = |body: &str| detail(outcomes(body.as_bytes()));
    assert!(wrong("").contains("an outcome"));
    assert!(wrong("[]").contains("JSON object"));
    assert!(
        wrong(r#"{"id": "x", "decision": "d", "truth": 1, "colour": 2}"#).contains("unknown field `colour`")
    );
    assert!(wrong(r#"{"id": "x", "id": "y", "truth": 1}"#).contains("duplicate field `id`"));
    assert!(wrong(r#"{"id": "x", "decision": "d"}"#).contains("missing field `truth`"));
    assert!(wrong(r#"{"id": "x", "truth": 1}"#).contains("missing field `decision`"));
    assert!(wrong(r#"{"outcomes": []}"#).contains("send 1 to 1024"));
    assert!(
        wrong(r#"{"outcomes": [{"id": "x", "decision": "d", "truth": 1, "colour": 2}]}"#)
            .contains("unknown field `colour`")
    );
    assert!(
        wrong(r#"{"outcomes": [{"id": "x", "decision": "d", "truth": 1}], "colour": 2}"#)
            .contains("unknown field `colour`")
    );
    assert!(detail(Override::from_json(br#"{"id": 1}"#)).contains("an override"));
    assert!(detail(Erasure::from_json(br#"{"subject": "s", "by": "b"}"#)).contains("missing field `why`"));
}

#[test]
fn a_truth_may_be_null_and_may_mention_outcomes() {
    let told = |truth: &str| {
        let body = format!(r#"{{"id": "{ID}", "decision": "pay", "truth": {truth}}}"#);
        outcomes(body.as_bytes()).expect("it is taken").remove(0).truth
    };
    assert_eq!(told("null"), json!(null));
    assert_eq!(told(r#"{"outcomes": 3}"#), json!({"outcomes": 3}));
}

#[test]
fn as_many_outcomes_as_are_allowed_fit_into_a_body() {
    let one = format!(
        r#"{{"id":"{ID}","decision":"card-fraud","truth":"defaulted","when":"2026-11-16T00:47:13.123456789Z","source":"collections"}}"#
    );
    let many = |count| format!(r#"{{"outcomes":[{}]}}"#, vec![one.as_str(); count].join(","));
    assert_eq!(outcomes(many(OUTCOMES_MAX).as_bytes()).map(|told| told.len()), Ok(OUTCOMES_MAX));
    assert!(outcomes(many(OUTCOMES_MAX + 1).as_bytes()).is_err());
}

#[test]
fn facts_of_a_journal_read_as_the_page_says() {
    let facts = JournalFacts { unavailable: Some("full"), ..JournalFacts::default() };
    let read: Value = serde_json::from_slice(&json(&facts)).expect("JSON");
    assert_eq!((&read["unavailable"], &read["checkpoint"]), (&json!("full"), &Value::Null));
    assert_eq!(recorded_json(3).as_ref(), br#"{"recorded":3}"#);
}

#[test]
fn a_seal_is_asked_for_with_nothing_and_says_how_far_it_came() {
    assert!(nothing(b"").is_ok() && nothing(b"{}").is_ok());
    assert!(nothing(b"[]").is_err() && nothing(br#"{"segment": 1}"#).is_err());
    assert_eq!(sealed_json(3, "a note\n"), r#"{"segment":3,"checkpoint":"a note\n"}"#);
}
