//! Malformed requests are rejected as a whole, with the correct form.

use super::{GrpcDecision, LIMITS, http, proto, read};
use crate::GrpcReply;
use flyball_core::{DecisionDialect, Fault, FaultKind, FieldFault, GrpcCode, Stage};
use prost::Message;
use std::time::Duration;

#[test]
fn what_is_no_request_is_told_with_what_would_be_one() {
    for (body, told) in [
        (&b""[..], "EOF"),
        (b"[]", "an object with 'input' or 'rows'"),
        (b"{}", "neither 'input', for one row, nor 'rows', for many"),
        (br#"{"input": {}, "rows": [{"input": {}}]}"#, "both 'input' and 'rows'"),
        (br#"{"rows": [{"input": {}}], "input": {}}"#, "both 'input' and 'rows'"),
        (br#"{"input": {}, "input": {}}"#, "duplicate field `input`"),
        (br#"{"rows": [{"id": "a", "id": "b", "input": {}}]}"#, "duplicate field `id`"),
        (br#"{"rows": [{"input": {}, "input": {}}]}"#, "duplicate field `input`"),
        (br#"{"input": {}, "explain": false, "explain": true}"#, "duplicate field `explain`"),
        (
            br#"{"input": {}, "inputs": 1, "row": []}"#,
            "no key 'inputs', 'row'; its keys are input, rows, explain",
        ),
        (br#"{"card_id": "c", "amount": 1}"#, r#"fields 'card_id', 'amount' must be inside "input""#),
        (br#"{"amount": 1, "explain": true}"#, r#"field 'amount' must be inside "input""#),
        (br#"{"rows": [{"input": {}, "name": 1}]}"#, "a row has no key 'name'; its keys are id, input"),
        (br#"{"rows": [{"id": "a"}]}"#, "missing field `input`"),
        (br#"{"rows": [{"id": 7, "input": {}}]}"#, "expected"),
        (br#"{"rows": []}"#, "'rows' is empty; it has 1 to 1024 rows"),
        (br#"{"rows": {}}"#, "'rows' to be a list"),
        (br#"{"input": [1]}"#, "'input' to be an object of fields"),
        (br#"{"rows": [{"input": 1}]}"#, "'input' to be an object of fields"),
        (br#"{"input": {}, "explain": 1}"#, "'explain' to be true or false"),
        (br#"{"input": {"x": NaN}}"#, "expected value"),
        (br#"{"input": {"x": 1e999}}"#, "number out of range"),
        (br#"{"input": {}} {}"#, "trailing characters"),
        (b"{\"input\": {\"\xff\": 1}}", "not UTF-8"),
    ] {
        let shown = String::from_utf8_lossy(body);
        let fault = read(&http(), body).err().unwrap_or_else(|| panic!("{shown} was taken"));
        assert_eq!((fault.kind, fault.stage), (FaultKind::MalformedRequest, Stage::Parse), "{shown}");
        assert!(fault.text.contains(told), "{shown}: {fault}");
    }
}

#[test]
fn rows_and_ids_are_bounded_in_both_forms() {
    let json = |rows: usize, id: usize| {
        let row = format!(r#"{{"id": "{}", "input": {{}}}}"#, "i".repeat(id));
        read(&http(), format!(r#"{{"rows": [{}]}}"#, vec![row; rows].join(",")).as_bytes())
    };
    let grpc = |rows: usize, id: usize| {
        let row = proto::Row { id: "i".repeat(id), ..Default::default() };
        let message = proto::DecideRequest { rows: vec![row; rows], ..Default::default() };
        read(&GrpcDecision::default(), &message.encode_to_vec())
    };
    let (most, longest) = (LIMITS.decision_rows_max, LIMITS.name_bytes_max);
    for (rows, id, told) in [
        (most, 1, None),
        (most + 1, 1, Some("the limit of 1024")),
        (1, longest, None),
        (1, longest + 1, Some("at most 1024 are allowed")),
    ] {
        for read in [json(rows, id), grpc(rows, id)] {
            match (read, told) {
                (Ok((_, taken)), None) => assert_eq!(taken.0.len(), rows),
                (Err(fault), Some(told)) => {
                    assert!(fault.text.contains(told), "{fault}");
                }
                (read, _) => panic!("{rows} rows, id of {id} bytes: {}", read.is_ok()),
            }
        }
    }
}

#[test]
fn a_list_that_is_nested_very_deeply_is_stepped_over() {
    let deep = format!(r#"{{"input": {{"x": {}{}}}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let (_, taken) = read(&http(), deep.as_bytes()).expect("one row");
    assert_eq!(taken.0[0].1, [("x".to_owned(), super::Given::Other("a list"))]);
}

#[test]
fn numbers_over_grpc_that_are_not_finite_are_named_and_not_taken() {
    for number in [f64::NAN, f64::INFINITY] {
        let value = super::proto_of(&super::Given::Float(number));
        let input = [("x".to_owned(), value)].into();
        let message = proto::DecideRequest { input, ..Default::default() };
        let (_, taken) = read(&GrpcDecision::default(), &message.encode_to_vec()).expect("one row");
        assert_eq!(taken.0[0].1[0].1, super::Given::Other("a number that is not finite"));
    }
}

#[test]
fn a_value_without_a_kind_is_null_and_the_last_kind_counts() {
    // An entry 'x' whose value is given twice: first true, then 7.
    let entry = b"\x0a\x01x\x12\x02\x10\x01\x12\x02\x18\x07";
    let mut body = vec![0x12, entry.len() as u8];
    body.extend_from_slice(entry);
    body.extend_from_slice(b"\x12\x03\x0a\x01y");
    let (_, taken) = read(&GrpcDecision::default(), &body).expect("one row");
    let fields = [("x".to_owned(), super::Given::Int(7)), ("y".to_owned(), super::Given::Null)];
    assert_eq!(taken.0[0].1, fields);
}

fn invalid() -> Fault {
    let fields = vec![
        FieldFault { field: "amount".into(), is: Some("-1".into()), allowed: "a number from 0 to 10".into() },
        FieldFault { field: "coun\"try".into(), is: None, allowed: "required: a text".into() },
    ];
    Fault::fields_invalid(Stage::Parse, fields)
}

#[test]
fn a_refusal_is_a_problem_that_names_the_decision_and_every_field() {
    let reply = http().refuse(&invalid());
    assert_eq!((reply.status, reply.content_type), (422, "application/problem+json"));
    let problem: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
    let wanted = serde_json::json!({
        "type": "urn:flyball:fault:fields_invalid", "title": "fields invalid", "status": 422, "decision": "card",
        "detail": "2 fields are invalid; amount: allowed is a number from 0 to 10; \
                   coun\"try: allowed is required: a text",
        "faults": [
            {"field": "amount", "is": "-1", "allowed": "a number from 0 to 10"},
            {"field": "coun\"try", "is": null, "allowed": "required: a text"},
        ],
    });
    assert_eq!(problem, wanted);
}

#[test]
fn a_refusal_for_load_says_when_to_come_again_on_every_surface() {
    let fault =
        Fault::new(FaultKind::InFlightFull, Stage::Admit, "full").retry_after(Duration::from_millis(1200));
    let reply = http().refuse(&fault);
    assert_eq!((reply.status, reply.retry_after_s), (503, Some(2)));
    let problem: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
    assert_eq!(problem["retry_after_ms"], 1200);
    assert!(problem.get("faults").is_none());
    let GrpcReply::Status { code, retry_after_ms, .. } = GrpcDecision::default().refuse(&fault) else {
        panic!("no status");
    };
    assert_eq!((code, retry_after_ms), (GrpcCode::ResourceExhausted, Some(1200)));
}
