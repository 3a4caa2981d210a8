//! Whole runs against small servers of the test's own, which answer, stall, refuse, lie or hang up as told.

mod server;

use base64::Engine;
use flyball_load::{LoadError, Outcome, Payloads, Plan, Run};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde_json::{Value, json};
use server::{HttpServer, Reply, answer};
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

fn plan(url: &str, more: Value) -> Plan {
    let mut plan = json!({"url": url, "model": "fraud", "protocol": "http", "connections": 2, "mode": "closed",
        "duration_s": 0.3, "timeout_ms": 2000});
    for (key, value) in more.as_object().expect("an object") {
        plan[key] = value.clone();
    }
    Plan::from_json(plan.to_string().as_bytes()).expect("a plan")
}

/// Rows whose expected output is their input, halved.
fn rows() -> Payloads {
    let row = |x: f64| {
        json!({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [x]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [1], "data": [x / 2.0]}]})
    };
    let lines: Vec<_> = [1.0, 0.2, 3.5].map(|x| row(x).to_string()).into();
    Payloads::from_jsonl(lines.join("\n").as_bytes()).expect("rows")
}

fn run(plan: Plan) -> Outcome {
    let run = Run::start(plan, rows()).expect("starts");
    let outcome = run.result().expect("ends");
    assert!(run.finished());
    assert_eq!(outcome.sent, outcome.answered + outcome.refused + outcome.failed + outcome.mismatched);
    outcome
}

fn count(outcome: &Outcome, reason: &str) -> u64 {
    outcome.errors.iter().find(|error| error.reason == reason).map_or(0, |error| error.count)
}

#[test]
fn a_closed_loop_checks_every_answer_and_no_id_comes_twice() {
    let ids = std::sync::Arc::new(Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&ids);
    let server = HttpServer::start(move |_, body| {
        seen.lock().expect("lock").push(body["id"].as_str().expect("an id").to_owned());
        answer(&body)
    });
    let started = Run::start(plan(&server.url, json!({"warmup_s": 0.1})), rows()).expect("starts");
    let outcome = started.result().expect("ends");
    let ids = ids.lock().expect("lock");
    assert_eq!((outcome.refused, outcome.failed, outcome.mismatched), (0, 0, 0), "{outcome:?}");
    assert!(outcome.answered > 50, "{outcome:?}");
    assert_eq!(outcome.first_problem, None);
    assert_eq!(started.progress().1, ids.len() as u64);
    assert!(outcome.sent < ids.len() as u64, "the warm-up is left out");
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    assert!(outcome.latency_us.p50 > 0.0 && outcome.latency_us.p50 <= outcome.latency_us.max);
    assert_eq!(started.result(), Ok(outcome));
}

#[test]
fn a_stall_shows_in_the_latency_of_all_requests_that_were_due_in_it() {
    let stall = Duration::from_millis(200);
    let server = HttpServer::start(move |place, body| Reply {
        delay: if place == 30 { stall } else { Duration::ZERO },
        ..answer(&body)
    });
    let open = json!({"mode": "open", "rate_per_s": 100.0, "connections": 1, "duration_s": 1.0});
    let outcome = run(plan(&server.url, open));
    assert_eq!(outcome.sent, 100);
    assert_eq!(outcome.answered, 100, "{outcome:?}");
    let bytes = base64::engine::general_purpose::STANDARD.decode(&outcome.histogram).expect("base64");
    let latency_ns: Histogram<u64> =
        Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram");
    assert_eq!(latency_ns.len(), 100);
    // Twenty were due while the server slept; a generator that waits politely would show one.
    let slow = latency_ns.count_between(50_000_000, u64::MAX);
    assert!(slow >= 10, "{slow} of 100 were slow");
    assert!(outcome.latency_us.p99 >= 100_000.0);
    assert!(outcome.late_share >= 0.1, "{}", outcome.late_share);
}

#[test]
fn a_wrong_answer_is_found() {
    let server = HttpServer::start(|place, body| {
        let mut reply = answer(&body);
        if place == 5 {
            reply.body = reply.body.replace("\"data\":[", "\"data\":[9");
        }
        if place == 7 {
            reply.body = reply.body.replace("\"id\":\"", "\"id\":\"9");
        }
        reply
    });
    let outcome = run(plan(&server.url, json!({"connections": 1})));
    assert_eq!((outcome.mismatched, outcome.failed), (2, 0), "{outcome:?}");
    assert!(outcome.first_problem.is_some_and(|text| text.contains("output 'y' differs")));
}

#[test]
fn refusals_and_failures_are_counted_by_their_reason() {
    let server = HttpServer::start(|place, body| match place % 4 {
        0 => Reply { status: 503, body: r#"{"error":"full"}"#.into(), ..Reply::default() },
        1 => Reply { status: 500, body: r#"{"error":"broken"}"#.into(), ..Reply::default() },
        2 => Reply { hang_up: true, ..Reply::default() },
        _ => answer(&body),
    });
    let outcome = run(plan(&server.url, json!({"connections": 1})));
    assert!(outcome.answered > 0 && outcome.mismatched == 0, "{outcome:?}");
    assert_eq!(outcome.refused, count(&outcome, "http 503"));
    assert_eq!(outcome.failed, count(&outcome, "http 500") + count(&outcome, "closed early"));
    assert!(count(&outcome, "http 503") > 0 && count(&outcome, "closed early") > 0);
    assert_eq!(outcome.first_problem.as_deref(), Some(r#"http 503: {"error":"full"}"#));
}

#[test]
fn a_connection_that_the_server_closes_is_made_anew_without_a_failure() {
    let server = HttpServer::start(|place, body| Reply { close: place % 3 == 0, ..answer(&body) });
    let outcome = run(plan(&server.url, json!({})));
    assert_eq!((outcome.failed, outcome.refused, outcome.mismatched), (0, 0, 0), "{outcome:?}");
    assert!(outcome.answered > 10 && server.connections() > 2);
}

#[test]
fn a_server_that_is_not_there_and_one_that_never_answers_are_told_apart() {
    let gone = HttpServer::start(|_, body| answer(&body)).into_dead_url();
    let outcome = run(plan(&gone, json!({})));
    assert_eq!(outcome.failed, count(&outcome, "connect refused"), "{outcome:?}");
    assert!(outcome.failed > 0 && outcome.failed < 200, "a dead server is not hammered");

    let server = HttpServer::start(|_, body| Reply { delay: Duration::from_millis(400), ..answer(&body) });
    let outcome = run(plan(&server.url, json!({"timeout_ms": 50})));
    assert_eq!(outcome.failed, count(&outcome, "timeout"), "{outcome:?}");
    assert!(outcome.failed > 0 && outcome.answered == 0);
}

#[test]
fn the_backlog_is_bounded_and_what_does_not_fit_has_failed() {
    let server = HttpServer::start(|_, body| Reply { delay: Duration::from_millis(100), ..answer(&body) });
    let open =
        json!({"mode": "open", "rate_per_s": 1e6, "connections": 1, "duration_s": 0.2, "timeout_ms": 300});
    let outcome = run(plan(&server.url, open));
    assert_eq!(outcome.sent, 200_000);
    assert!(count(&outcome, "generator backlog full") > 100_000, "{outcome:?}");
    assert!(count(&outcome, "not sent before the run ended") > 50_000, "{outcome:?}");
    assert!(outcome.late_share > 0.99);
}

#[test]
fn a_run_that_is_stopped_ends_early_with_what_it_has() {
    let server = HttpServer::start(|_, body| answer(&body));
    let run = Run::start(plan(&server.url, json!({"duration_s": 3600.0})), rows()).expect("starts");
    while run.progress().1 < 20 {
        std::thread::yield_now();
    }
    assert!(!run.finished());
    run.stop();
    let outcome = run.result().expect("ends");
    assert!(outcome.answered >= 20 && outcome.elapsed_s < 60.0, "{outcome:?}");
}

#[test]
fn an_echo_that_is_no_v2_server_is_judged_by_its_status_alone() {
    let server = HttpServer::start(|_, _| Reply { body: "fine".into(), ..Reply::default() });
    let pool = br#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}],"outputs":null}"#;
    let echo = |path: Value| {
        let payloads = Payloads::from_jsonl(pool).expect("rows");
        Run::start(plan(&server.url, json!({"path": path})), payloads)
            .expect("starts")
            .result()
            .expect("ends")
    };
    let outcome = echo(json!("/echo"));
    assert!(outcome.answered > 0 && outcome.mismatched == 0, "{outcome:?}");
    let outcome = echo(Value::Null);
    assert!(outcome.answered == 0 && outcome.mismatched > 0, "{outcome:?}");
}

#[test]
fn over_grpc_answers_are_checked_and_refusals_are_counted_by_code() {
    let server = server::grpc_server(|place| place % 5 == 0);
    let more = json!({"protocol": "grpc", "connections": 2, "streams": 4});
    let outcome = run(plan(&server, more));
    assert!(outcome.answered > 20 && outcome.mismatched == 0 && outcome.failed == 0, "{outcome:?}");
    assert_eq!(outcome.refused, count(&outcome, "grpc RESOURCE_EXHAUSTED"));
    assert_eq!(outcome.first_problem.as_deref(), Some("grpc RESOURCE_EXHAUSTED: full"));
}

#[test]
fn cores_that_do_not_exist_are_refused_at_the_start() {
    let error = Run::start(plan("http://127.0.0.1:9", json!({"cpus": [1023]})), rows()).expect_err("refused");
    assert!(matches!(error, LoadError::Start(_)), "{error}");
}
