//! `timeout`, `priority` and reserved names: parsed alike over HTTP and gRPC, and rejected with the same text.

use super::{GrpcDialect, http, parse, parse_json};
use crate::proto::inference::infer_parameter::ParameterChoice;
use crate::proto::inference::{InferParameter, ModelInferRequest};
use bytes::Bytes;
use flyball_core::{Dialect, Fault, FaultKind, InferRequest, Priority};
use prost::Message;
use std::time::Duration;

fn over_http(name: &str, value: &str) -> Result<InferRequest, Fault> {
    parse_json(&format!(r#"{{"inputs":[],"parameters":{{"{name}":{value}}}}}"#))
}

fn over_grpc(name: &str, choice: Option<ParameterChoice>) -> Result<InferRequest, Fault> {
    let parameter = InferParameter { parameter_choice: choice };
    let message =
        ModelInferRequest { parameters: [(name.to_owned(), parameter)].into(), ..Default::default() };
    parse(&GrpcDialect::default(), &message.encode_to_vec().into())
}

/// A number as each protocol encodes it.
fn each(name: &str, number: u64) -> Vec<InferRequest> {
    let int64 = i64::try_from(number).ok().map(ParameterChoice::Int64Param);
    let choices = [Some(ParameterChoice::Uint64Param(number)), int64].into_iter().flatten();
    let over_grpc = choices.map(|choice| over_grpc(name, Some(choice)).expect("parses"));
    over_grpc.chain([over_http(name, &number.to_string()).expect("parses")]).collect()
}

#[test]
fn a_timeout_is_in_microseconds_and_0_is_none() {
    let day = Duration::from_hours(24);
    for (number, wanted) in [
        (0, None),
        (1, Some(Duration::from_micros(1))),
        (86_400_000_000, Some(day)),
        (u64::MAX, Some(Duration::from_micros(u64::MAX))),
    ] {
        for request in each("timeout", number) {
            assert_eq!((request.timeout, request.priority), (wanted, Priority::Normal));
        }
    }
}

#[test]
fn a_priority_is_a_level_and_1_is_the_most_urgent() {
    for (number, wanted) in [
        (0, Priority::Normal),
        (1, Priority::High),
        (2, Priority::Normal),
        (3, Priority::Low),
        (u64::MAX, Priority::Low),
    ] {
        for request in each("priority", number) {
            assert_eq!((request.timeout, request.priority), (None, wanted));
        }
    }
}

#[test]
fn what_is_no_whole_number_is_refused_in_the_same_words_by_both_protocols() {
    let other = [
        over_http("timeout", "-1"),
        over_http("timeout", "1.5"),
        over_http("timeout", "1e3"),
        over_http("timeout", "18446744073709551616"),
        over_http("timeout", "true"),
        over_http("timeout", "\"1\""),
        over_http("timeout", "\"\\u0031\""),
        over_http("timeout", "[1,[2]]"),
        over_http("timeout", "{\"a\":1}"),
        over_grpc("timeout", Some(ParameterChoice::Int64Param(-1))),
        over_grpc("timeout", Some(ParameterChoice::DoubleParam(1.0))),
        over_grpc("timeout", Some(ParameterChoice::BoolParam(true))),
        over_grpc("timeout", Some(ParameterChoice::StringParam("1".into()))),
        over_grpc("timeout", None),
    ];
    for parsed in other {
        let fault = parsed.expect_err("is refused");
        assert_eq!(fault.kind, FaultKind::MalformedRequest);
        assert!(
            fault.text.starts_with("parameter 'timeout' must be a whole number of microseconds"),
            "{fault}"
        );
    }
    let over_http = over_http("priority", "\"high\"").expect_err("is refused");
    let over_grpc = over_grpc("priority", Some(ParameterChoice::StringParam("high".into())));
    assert_eq!(over_http, over_grpc.expect_err("is refused"));
    assert!(
        over_http.text.starts_with("parameter 'priority' must be a whole number, 0 or more"),
        "{over_http}"
    );
}

#[test]
fn a_parameter_that_is_null_or_of_another_name_says_nothing() {
    let request = over_http("timeout", "null").expect("parses");
    assert_eq!(request.timeout, None);
    for value in ["\"7\"", "7", "1.5", "true", "[1]", "{\"a\":{}}"] {
        let request = over_http("tenant", value).expect("parses");
        assert_eq!((request.timeout, request.priority), (None, Priority::Normal));
    }
    let request = over_grpc("tenant", Some(ParameterChoice::StringParam("7".into()))).expect("parses");
    assert_eq!((request.timeout, request.priority), (None, Priority::Normal));
}

#[test]
fn a_request_in_a_sequence_is_refused_and_one_that_names_none_is_not() {
    for (name, value, choice) in [
        ("sequence_id", "7", ParameterChoice::Int64Param(7)),
        ("sequence_id", "\"a\"", ParameterChoice::StringParam("a".into())),
        ("sequence_start", "true", ParameterChoice::BoolParam(true)),
        ("sequence_end", "true", ParameterChoice::BoolParam(true)),
    ] {
        for parsed in [over_http(name, value), over_grpc(name, Some(choice.clone()))] {
            let fault = parsed.expect_err(name);
            assert_eq!(fault.kind, FaultKind::NotOffered);
            assert!(fault.text.starts_with("flyball serves stateless models"), "{fault}");
        }
    }
    for (name, value, choice) in [
        ("sequence_id", "0", ParameterChoice::Int64Param(0)),
        ("sequence_id", "\"\"", ParameterChoice::StringParam(String::new())),
        ("sequence_start", "false", ParameterChoice::BoolParam(false)),
    ] {
        over_http(name, value).expect("parses");
        over_grpc(name, Some(choice)).expect("parses");
    }
}

#[test]
fn a_parameter_with_a_reserved_name_is_refused_by_both_protocols() {
    for name in ["triton_final_response", "triton_injected_via_header", "triton_"] {
        let over_grpc = over_grpc(name, Some(ParameterChoice::StringParam("x".into())));
        let refusals = [over_http(name, "\"x\""), over_http(name, "null"), over_grpc];
        for fault in refusals.map(|parsed| parsed.expect_err(name)) {
            assert_eq!(fault.kind, FaultKind::MalformedRequest);
            assert!(fault.text.contains("reserved for Triton usage"), "{fault}");
            assert!(fault.text.ends_with(&format!("got '{name}'")), "{fault}");
        }
    }
    over_http("my_triton_", "1").expect("parses");
}

#[test]
fn only_grpc_takes_the_reserved_parameter_of_streams() {
    let name = "triton_enable_empty_final_response";
    over_grpc(name, Some(ParameterChoice::BoolParam(true))).expect("parses");
    assert_eq!(over_http(name, "true").expect_err("is refused").kind, FaultKind::MalformedRequest);
}

#[test]
fn a_parameter_twice_in_json_is_refused() {
    let parsed = parse_json(r#"{"inputs":[],"parameters":{"timeout":1,"timeout":2}}"#);
    assert!(parsed.expect_err("is refused").text.contains("duplicate field `timeout`"));
}

#[test]
fn a_glance_tells_which_requests_name_a_parameter() {
    let json = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    assert!(http(None).mentions(&json(r#"{"inputs":[],"parameters":{"priority":1}}"#), "priority"));
    assert!(!http(None).mentions(&json(r#"{"inputs":[],"parameters":{"timeout":1}}"#), "priority"));
    // Bytes after the JSON part are data.
    assert!(!http(Some(2)).mentions(&json(r#"{}"priority""#), "priority"));
    assert!(!http(Some(9)).mentions(&json("{}"), "priority"));
    assert!(http(None).mentions(&json(r#"{"parameters":{"timeout":1}}"#), "timeout"));
    let message = |name: &str| {
        let parameters = [(name.to_owned(), InferParameter::default())].into();
        let message = ModelInferRequest { model_name: "priority".into(), parameters, ..Default::default() };
        Bytes::from(message.encode_to_vec())
    };
    assert!(GrpcDialect::default().mentions(&message("priority"), "priority"));
    assert!(!GrpcDialect::default().mentions(&message("timeout"), "priority"));
    assert!(
        GrpcDialect::default().mentions(&Bytes::from_static(&[0xff]), "priority"),
        "is parsed, and refused"
    );
}
