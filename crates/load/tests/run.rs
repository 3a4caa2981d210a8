//! Whole runs against small test servers, which answer, stall, reject, lie or hang up.

mod server;

use flyball_load::{LoadError, MergedHistogram, Outcome, Payloads, Phase, Plan, Run, read_histograms};
use serde_json::{Value, json};
use server::{HttpServer, Reply, answer};
use std::collections::HashSet;
use std::net::{TcpListener, ToSocketAddrs};
use std::sync::Mutex;
use std::time::{Duration, Instant};

fn plan(url: &str, more: Value) -> Plan {
    let mut plan = json!({"url": url, "model": "fraud", "connections": 2, "duration_s": 0.3, "timeout_ms": 2000,
        "warmup": {"least_s": 0.0, "most_s": 0.0}});
    for (key, value) in more.as_object().expect("an object") {
        plan[key] = value.clone();
    }
    Plan::from_json(plan.to_string().as_bytes()).expect("a plan")
}

fn constant(rate_per_s: f64) -> Value {
    json!({"kind": "constant", "rate_per_s": rate_per_s})
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

fn merged(histograms: &[&str]) -> MergedHistogram {
    read_histograms(json!({ "histograms": histograms }).to_string().as_bytes()).expect("histograms")
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
    let started = Run::start(plan(&server.url, json!({"warmup": {"least_s": 0.1, "most_s": 0.1}})), rows())
        .expect("starts");
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
    let open = json!({"arrivals": constant(100.0), "connections": 1, "duration_s": 1.0});
    let outcome = run(plan(&server.url, open));
    assert_eq!(outcome.sent, 100);
    assert_eq!(outcome.answered, 100, "{outcome:?}");
    let latencies = merged(&[&outcome.histogram]);
    assert_eq!(latencies.count, 100);
    // Twenty were due while the server slept; a closed-loop generator would show one.
    let slow: u64 = latencies
        .values_us
        .iter()
        .zip(&latencies.counts)
        .filter(|(us, _)| **us > 50_000.0)
        .map(|(_, n)| n)
        .sum();
    assert!(slow >= 10, "{slow} of 100 were slow");
    let intervals: Vec<_> = outcome.timeline.iter().map(|interval| interval.histogram.as_str()).collect();
    assert_eq!(merged(&intervals), latencies, "the time line has the same requests");
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
    let gone = HttpServer::start_on(nobody_follows(4), |_, body| answer(&body)).into_dead_url();
    let outcome = run(plan(&gone, json!({})));
    assert_eq!(outcome.failed, count(&outcome, "connect refused"), "{outcome:?}");
    assert!(outcome.failed > 0 && outcome.failed < 200, "a dead server is not hammered");

    let server = HttpServer::start(|_, body| Reply { delay: Duration::from_millis(400), ..answer(&body) });
    let outcome = run(plan(&server.url, json!({"timeout_ms": 50})));
    assert_eq!(outcome.failed, count(&outcome, "timeout"), "{outcome:?}");
    assert!(outcome.failed > 0 && outcome.answered == 0);
    assert_eq!((outcome.timed_out, merged(&[&outcome.histogram]).count), (outcome.failed, outcome.failed));
    assert!(outcome.latency_us.p50 >= 50_000.0, "what was not answered took at least that long");
}

#[test]
fn the_backlog_is_bounded_and_what_does_not_fit_has_failed() {
    let server = HttpServer::start(|_, body| Reply { delay: Duration::from_millis(100), ..answer(&body) });
    let open = json!({"arrivals": constant(1e6), "connections": 1, "duration_s": 0.2, "timeout_ms": 300});
    let outcome = run(plan(&server.url, open));
    assert_eq!(outcome.sent, 200_000);
    assert!(count(&outcome, "generator backlog full") > 100_000, "{outcome:?}");
    assert!(count(&outcome, "not sent before the run ended") > 50_000, "{outcome:?}");
    assert!(outcome.late_share > 0.99 && outcome.generator.waited_share > 0.99);
    assert_eq!(merged(&[&outcome.histogram]).count, outcome.sent, "nothing that was due is left out");
    assert!(outcome.latency_us.p50 >= 300_000.0, "giving up does not look fast: {outcome:?}");
    assert!(merged(&[&outcome.service_histogram]).count < 100);
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
    assert!(outcome.elapsed_s < 60.0, "{outcome:?}");
    assert_eq!(outcome.ended_early.as_deref(), Some("stopped"));
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
    let server = server::grpc_server(|place, _| place % 5 == 0);
    let more = json!({"protocol": "grpc", "connections": 2, "streams": 4});
    let outcome = run(plan(&server, more));
    assert!(outcome.answered > 20 && outcome.mismatched == 0 && outcome.failed == 0, "{outcome:?}");
    assert_eq!(outcome.refused, count(&outcome, "grpc RESOURCE_EXHAUSTED"));
    assert_eq!(outcome.first_problem.as_deref(), Some("grpc RESOURCE_EXHAUSTED: full"));
}

#[test]
fn over_grpc_a_deadline_is_the_calls_own_timeout() {
    let server =
        server::grpc_server(|_, headers| headers.get("grpc-timeout").is_none_or(|value| value != "250m"));
    let outcome = run(plan(&server, json!({"protocol": "grpc", "deadline_ms": 250})));
    assert!(outcome.answered > 0 && outcome.refused == 0, "{outcome:?}");
}

#[test]
fn cores_that_do_not_exist_are_refused_at_the_start() {
    let error = Run::start(plan("http://127.0.0.1:9", json!({"cpus": [1023]})), rows()).expect_err("refused");
    assert!(matches!(error, LoadError::Start(_)), "{error}");
}

#[test]
fn binary_tensors_go_both_ways_and_a_wrong_bit_is_found() {
    let server = HttpServer::start_binary(|place, x| if place == 9 { x } else { x / 2.0 });
    let outcome = run(plan(&server.url, json!({"protocol": "http-binary", "connections": 1})));
    assert!(outcome.answered > 20 && outcome.failed == 0, "{outcome:?}");
    assert_eq!(outcome.mismatched, 1);
    assert!(outcome.first_problem.is_some_and(|text| text.contains("output 'y' differs")));
}

#[test]
fn a_body_that_is_too_long_to_be_copied_arrives_whole() {
    let server = HttpServer::start(|_, body| {
        assert_eq!(body["inputs"][0]["data"].as_array().map(Vec::len), Some(40_000));
        answer(&body)
    });
    let input = json!({"name": "x", "datatype": "FP32", "shape": [40_000], "data": vec![3.5; 40_000]});
    let output = json!({"name": "y", "datatype": "FP32", "shape": [1], "data": [1.75]});
    let row = json!({"inputs": [input], "outputs": [output]}).to_string();
    let payloads = Payloads::from_jsonl(row.as_bytes()).expect("a row");
    let outcome = Run::start(plan(&server.url, json!({})), payloads).expect("starts").result().expect("ends");
    assert!(outcome.answered > 0 && outcome.answered == outcome.sent, "{outcome:?}");
}

#[test]
fn a_unix_socket_carries_the_same_requests_and_one_that_is_gone_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("server.sock");
    server::unix_server(&path, |_, body| answer(&body));
    let outcome = run(plan(&format!("unix:{}", path.display()), json!({})));
    assert!(outcome.answered > 20 && outcome.mismatched + outcome.failed == 0, "{outcome:?}");
    let gone = run(plan(&format!("unix:{}", folder.path().join("gone").display()), json!({})));
    assert_eq!((gone.answered, gone.failed), (0, count(&gone, "connect refused")), "{gone:?}");
}

#[test]
fn several_threads_send_one_schedule_and_their_counts_add_up() {
    let ids = std::sync::Arc::new(Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&ids);
    let server = HttpServer::start(move |_, body| {
        seen.lock()
            .expect("lock")
            .push(body["id"].as_str().expect("an id").parse::<u64>().expect("a number"));
        answer(&body)
    });
    let arrivals = json!({"kind": "poisson", "rate_per_s": 1000.0, "seed": 5});
    let more = json!({"arrivals": arrivals, "threads": 3, "connections": 7, "duration_s": 0.5});
    let outcome = run(plan(&server.url, more));
    let mut ids = std::mem::take(&mut *ids.lock().expect("lock"));
    ids.sort_unstable();
    assert_eq!(ids, (0..outcome.sent).collect::<Vec<_>>(), "each arrival of the schedule once");
    assert_eq!((outcome.answered, outcome.generator.threads), (outcome.sent, 3));
    assert_eq!(outcome.timeline.iter().map(|interval| interval.sent).sum::<u64>(), outcome.sent);
    assert_eq!(merged(&[&outcome.histogram]).count, outcome.sent);
    assert_eq!(server.connections(), 7);
}

#[test]
fn ids_stay_distinct_over_the_threads_of_a_closed_loop() {
    let ids = std::sync::Arc::new(Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&ids);
    let server = HttpServer::start(move |_, body| {
        seen.lock().expect("lock").push(body["id"].as_str().expect("an id").to_owned());
        answer(&body)
    });
    let warmup = json!({"least_s": 0.05, "most_s": 0.05});
    let outcome = run(plan(&server.url, json!({"threads": 2, "warmup": warmup})));
    let ids = ids.lock().expect("lock");
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    assert!(outcome.answered > 20 && outcome.mismatched == 0, "{outcome:?}");
}

#[test]
fn a_deadline_is_told_to_the_server_and_what_comes_after_it_is_counted() {
    // Every second response is late; others may be on a busy machine, and none is 20 s late.
    for (deadline_ms, late) in [(20, true), (20_000, false)] {
        let server = HttpServer::start(move |place, body| {
            assert_eq!(body["parameters"]["timeout"], deadline_ms * 1000, "in µs");
            Reply { delay: Duration::from_millis(if place % 2 == 0 { 40 } else { 0 }), ..answer(&body) }
        });
        let outcome = run(plan(&server.url, json!({"deadline_ms": deadline_ms, "connections": 1})));
        assert!(outcome.failed + outcome.mismatched == 0 && outcome.answered > 3, "{outcome:?}");
        let least = if late { outcome.answered / 2 } else { 0 };
        let most = if late { outcome.answered } else { 0 };
        assert!((least..=most).contains(&outcome.past_deadline), "{outcome:?}");
    }
}

/// At its own address: the port of a dead server is free, and another test's server could answer there.
fn nobody_follows(host: u8) -> TcpListener {
    TcpListener::bind((std::net::Ipv4Addr::new(127, 0, 0, host), 0)).expect("a port")
}

#[test]
fn a_server_that_dies_ends_the_run_with_what_was_measured_and_says_when() {
    let server = HttpServer::start_on(nobody_follows(2), |_, body| answer(&body));
    let arrivals = constant(500.0);
    let run = Run::start(plan(&server.url, json!({"arrivals": arrivals, "duration_s": 600.0})), rows());
    let run = run.expect("starts");
    while run.progress().1 < 100 {
        std::thread::yield_now();
    }
    server.die();
    let outcome = run.result().expect("ends");
    assert!(outcome.answered > 50 && outcome.failed > 0 && outcome.elapsed_s < 60.0, "{outcome:?}");
    let words = outcome.ended_early.expect("a reason");
    assert!(words.starts_with("the server stopped answering after "), "{words}");
    assert!(words.ends_with(": connect refused"), "{words}");
    assert!(outcome.timeline.len() < 10, "only what had begun: {}", outcome.timeline.len());
}

#[test]
fn a_server_that_never_was_there_ends_the_warm_up() {
    let gone = HttpServer::start_on(nobody_follows(3), |_, body| answer(&body)).into_dead_url();
    let outcome = run(plan(&gone, json!({"warmup": {"least_s": 60.0, "most_s": 60.0}})));
    let words = outcome.ended_early.expect("a reason");
    assert_eq!(words, "the server did not answer in the warm-up: connect refused");
    assert_eq!(outcome.sent, 0);
}

#[test]
fn every_connection_is_open_before_the_first_request_however_few_there_are() {
    let server = HttpServer::start(|_, body| answer(&body));
    let more =
        json!({"arrivals": {"kind": "trace", "offsets_s": [0.0, 0.01]}, "connections": 150, "threads": 2});
    let outcome = run(plan(&server.url, more));
    // The kernel reports it as open; the server's thread may accept some of them later.
    while server.connections() < 150 {
        std::thread::yield_now();
    }
    assert_eq!((outcome.answered, server.connections()), (2, 150), "{outcome:?}");
}

#[test]
fn a_run_that_is_stopped_while_it_opens_its_connections_does_not_wait_for_them() {
    // No accept here: with a full queue, connecting takes forever.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    rustix::net::listen(&listener, 0).expect("the shortest queue");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let more = json!({"connections": 8, "timeout_ms": 3_600_000});
    let run = Run::start(plan(&url, more), rows()).expect("starts");
    assert_eq!(run.phase(), Phase::Beginning);
    run.stop();
    let outcome = run.result().expect("ends");
    assert_eq!((outcome.sent, outcome.ended_early.as_deref()), (0, Some("stopped")));
    assert_eq!(run.phase(), Phase::Ended);
}

#[test]
fn whoever_looks_on_sees_a_run_warm_up_begin_and_measure() {
    let server = HttpServer::start(|_, body| answer(&body));
    // The shortest phase lasts 60 ms: a slow observer starts again.
    let seen = |more: Value| {
        for _ in 0..100 {
            let run = Run::start(plan(&server.url, more.clone()), rows()).expect("starts");
            let (mut seen, mut looked, mut longest) = (vec![run.phase()], Instant::now(), Duration::ZERO);
            while !run.finished() {
                seen.push(run.phase());
                longest = longest.max(looked.elapsed());
                looked = Instant::now();
                std::thread::sleep(Duration::from_millis(5));
            }
            if longest < Duration::from_millis(50) {
                seen.dedup();
                let seen = seen.into_iter().filter(|phase| *phase != Phase::Ended);
                return seen.map(Phase::name).collect::<Vec<_>>();
            }
        }
        panic!("this machine never lets a test look every 50 ms");
    };
    let warmup = json!({"least_s": 0.1, "most_s": 0.1});
    assert_eq!(seen(json!({ "warmup": warmup })), ["warming", "beginning", "measuring"]);
    assert_eq!(seen(json!({"arrivals": constant(100.0)})), ["beginning", "measuring"]);
}

#[test]
fn a_server_is_found_at_whichever_of_its_names_addresses_it_listens_and_an_ipv6_literal_is_one() {
    for host in ["127.0.0.1:0", "[::1]:0"] {
        // A machine may have no IPv6.
        let Ok(listener) = TcpListener::bind(host) else { continue };
        let address = listener.local_addr().expect("an address");
        let server = HttpServer::start_on(listener, |_, body| answer(&body));
        let name = format!("localhost:{}", address.port());
        let named = name.to_socket_addrs().is_ok_and(|mut found| found.any(|found| found == address));
        let by_name = named.then(|| format!("http://{name}"));
        for url in std::iter::once(server.url.clone()).chain(by_name) {
            let outcome = run(plan(&url, json!({})));
            assert!(outcome.answered > 0 && outcome.failed == 0, "{url}: {outcome:?}");
        }
    }
}

#[test]
fn a_trace_ends_the_run_with_its_last_request() {
    let server = HttpServer::start(|_, body| answer(&body));
    let offsets_s: Vec<_> = (0..50).map(|place| f64::from(place) * 0.004).collect();
    let arrivals = json!({"kind": "trace", "offsets_s": offsets_s});
    let outcome = run(plan(&server.url, json!({"arrivals": arrivals, "duration_s": 600.0})));
    assert_eq!((outcome.sent, outcome.answered), (50, 50), "{outcome:?}");
    assert!((outcome.offered_per_s - 250.0).abs() < 1e-6, "{}", outcome.offered_per_s);
    assert!(outcome.elapsed_s < 30.0);
}

#[test]
fn a_warm_up_ends_once_the_load_is_steady_and_goes_on_while_it_is_not() {
    // Ten times what one connection can carry: the queue only grows.
    let server = HttpServer::start(|_, body| Reply { delay: Duration::from_millis(10), ..answer(&body) });
    let warmup = json!({"least_s": 0.4, "most_s": 0.8});
    let more = json!({"warmup": warmup, "arrivals": constant(1000.0), "connections": 1, "duration_s": 0.1,
        "timeout_ms": 100});
    let growing = run(plan(&server.url, more));
    assert!(!growing.warmup.steady && growing.warmup.used_s >= 0.8, "{:?}", growing.warmup);
    let server = HttpServer::start(|_, body| Reply { delay: Duration::from_millis(2), ..answer(&body) });
    let warmup = json!({"least_s": 0.2, "most_s": 20.0});
    let even = run(plan(&server.url, json!({"warmup": warmup, "duration_s": 0.1})));
    assert!(even.warmup.steady && even.warmup.used_s < 20.0, "{:?}", even.warmup);
}
