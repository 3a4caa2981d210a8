//! Whole runs in virtual time against an in-memory server that stalls: reports must match arithmetic.
//!
//! Session, pacer, workers and the HTTP code are real; only the clock and the wire are simulated.

use super::*;
use crate::control::EndedEarly;
use crate::outcome::Outcome;
use crate::stream::Address;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

const MS: Duration = Duration::from_millis(1);

/// Every two seconds, the first time after one, the server stalls for 200 ms. A request takes it 1 ms.
const STALL: Duration = Duration::from_millis(200);
const EVERY: Duration = Duration::from_secs(2);
const FIRST: Duration = Duration::from_secs(1);
const SERVICE: Duration = MS;

async fn serve(mut clients: mpsc::Receiver<DuplexStream>, start: Instant) {
    while let Some(client) = clients.recv().await {
        spawn_local(converse(client, start));
    }
}

async fn converse(mut client: DuplexStream, start: Instant) {
    let mut request = vec![0; 4096];
    while let Ok(count @ 1..) = client.read(&mut request).await {
        let since_stall = (start.elapsed() + EVERY - FIRST).as_nanos() % EVERY.as_nanos();
        let stalled = Duration::from_nanos(u64::try_from(since_stall).expect("fits"));
        if start.elapsed() >= FIRST && stalled < STALL {
            sleep(STALL - stalled).await;
        }
        sleep(SERVICE).await;
        let text = std::str::from_utf8(&request[..count]).expect("text");
        let id = text.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
        let body = format!(r#"{{"id":"{id}"}}"#);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        client.write_all(answer.as_bytes()).await.expect("writes");
    }
}

/// A run of 20 s with ten stalls, which takes no real time.
async fn run(more: Value) -> Outcome {
    run_and_stop(more, None).await
}

async fn run_and_stop(more: Value, stop: Option<Duration>) -> Outcome {
    let mut plan = json!({"url": "http://127.0.0.1:1", "model": "m", "duration_s": 20.0,
        "warmup": {"least_s": 0.0, "most_s": 0.0}});
    for (key, value) in more.as_object().expect("an object") {
        plan[key] = value.clone();
    }
    let plan = Plan::from_json(plan.to_string().as_bytes()).expect("a plan");
    let row = br#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}],"outputs":null}"#;
    let mut payloads = Payloads::from_jsonl(row).expect("a row");
    payloads.prepare(&plan).expect("bodies");
    let (server, clients) = mpsc::channel(16);
    let target = Target { address: Address::Memory(server), ..plan.check().expect("a target") };
    let control = Arc::new(Control::new(1));
    let job = Job {
        plan: plan.clone(),
        target: Arc::new(target),
        payloads: Arc::new(payloads),
        control: Arc::clone(&control),
    };
    if let Some(after) = stop {
        let control = Arc::clone(&control);
        spawn_local(async move {
            sleep(after).await;
            control.end(EndedEarly::Stopped);
        });
    }
    // Measuring starts after the notice; the server's time starts then as well.
    let serving = spawn_local(serve(clients, Instant::now() + NOTICE));
    let part = drive(Arc::new(job), Share { index: 0, threads: 1 }, Timer::Virtual).await.expect("a part");
    serving.abort();
    Outcome::of(&plan, &control.course(), vec![part]).expect("an outcome")
}

fn in_virtual_time(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, test);
}

/// Within the three digits of a histogram.
#[track_caller]
fn assert_is(us: f64, wanted: Duration) {
    let wanted_us = wanted.as_secs_f64() * 1e6;
    assert!((us / wanted_us - 1.0).abs() <= 0.001, "{us} µs, not {wanted:?}");
}

#[test]
fn a_run_that_is_stopped_with_a_backlog_ends_though_more_would_be_due() {
    in_virtual_time(async {
        let begun = Instant::now();
        let arrivals = json!({"kind": "constant", "rate_per_s": 5000.0});
        let plan = json!({"arrivals": arrivals, "connections": 2, "duration_s": 600.0, "timeout_ms": 2000});
        let outcome = run_and_stop(plan, Some(Duration::from_secs(1))).await;
        assert_eq!(outcome.ended_early.as_deref(), Some("stopped"));
        let most = Duration::from_secs(3) + STALL + SERVICE + NOTICE;
        assert!(begun.elapsed() <= most, "{:?}", begun.elapsed());
    });
}

#[test]
fn the_p99_of_a_server_that_stalls_is_exact_in_an_open_loop() {
    in_virtual_time(async {
        let arrivals = json!({"kind": "constant", "rate_per_s": 1000.0});
        let outcome = run(json!({"arrivals": arrivals, "connections": 256})).await;
        assert_eq!((outcome.sent, outcome.answered), (20_000, 20_000));
        // A request that is due x after a stall started waits for its rest. One of a hundred requests is due
        // in the first hundredth of a period, and waits longer than the others.
        assert_is(outcome.latency_us.p99, STALL - EVERY / 100 + SERVICE);
        assert_is(outcome.latency_us.p95, STALL - EVERY / 20 + SERVICE);
        assert_is(outcome.latency_us.max, STALL + SERVICE);
        assert_is(outcome.latency_us.p50, SERVICE);
        assert_eq!(outcome.generator.lateness_us.max, 0.001, "nothing was late in a time without delays");
        assert_eq!(outcome.generator.waited_share, 0.0, "a connection was always free");
        assert_eq!(outcome.bottleneck, None);
        assert_eq!(outcome.offered_per_s, 1000.0);
    });
}

#[test]
fn with_few_connections_the_wait_for_one_counts_and_the_time_on_the_wire_hides_it() {
    in_virtual_time(async {
        let arrivals = json!({"kind": "constant", "rate_per_s": 1000.0});
        let outcome = run(json!({"arrivals": arrivals, "connections": 16})).await;
        assert_eq!(outcome.answered, 20_000);
        // Sixteen go at a time once the stall has ended, so that number k of it waits for k / 16 others
        // before it. Twenty of each two thousand are slower than the p99, which is the next one's: number 20,
        // in the second round.
        assert_is(outcome.latency_us.p99, STALL - 20 * MS + SERVICE + (20 / 16) * SERVICE);
        assert_is(outcome.service_us.p99, SERVICE);
        // Of the two hundred that are due in a stall all but the first sixteen wait, and those of the
        // thirteen rounds after it in which fifteen more leave than come.
        let waited = outcome.generator.waited_share;
        assert!((waited - 0.0985).abs() < 0.001, "{waited}");
    });
}

#[test]
fn callers_who_do_not_wait_for_a_connection_give_up_what_the_stall_held_back() {
    in_virtual_time(async {
        let arrivals = json!({"kind": "constant", "rate_per_s": 1000.0});
        let plan = json!({"arrivals": arrivals, "connections": 16, "connection_wait_ms": 50});
        let outcome = run(plan).await;
        assert_eq!(outcome.sent, 20_000);
        let [error] = outcome.errors.as_slice() else { panic!("{:?}", outcome.errors) };
        assert_eq!((error.reason.as_str(), error.count), ("no connection was free in time", outcome.failed));
        // Of each stall's two hundred, sixteen are in flight, some thirty of the next ones are given up, and
        // the last fifty are sent.
        assert!((1_300..1_400).contains(&outcome.failed), "{}", outcome.failed);
    });
}

#[test]
fn a_closed_loop_over_the_same_server_hides_the_stall() {
    in_virtual_time(async {
        let outcome = run(json!({"connections": 16})).await;
        assert!(outcome.answered > 280_000, "{}", outcome.answered);
        assert_eq!(outcome.elapsed_s, 20.0, "what is under way at the end is not waited for twice");
        assert_is(outcome.latency_us.p99, SERVICE);
        assert_is(outcome.latency_us.p999, SERVICE);
        assert_is(outcome.latency_us.max, STALL + SERVICE);
    });
}

#[test]
fn the_time_line_shows_each_stall_where_it_was() {
    in_virtual_time(async {
        let arrivals = json!({"kind": "constant", "rate_per_s": 1000.0});
        let outcome = run(json!({"arrivals": arrivals, "connections": 256, "interval_s": 0.2})).await;
        assert_eq!(outcome.timeline.len(), 100);
        for (place, interval) in outcome.timeline.iter().enumerate() {
            let document = json!({"histograms": [interval.histogram]}).to_string();
            let merged = crate::histogram::read_histograms(document.as_bytes()).expect("reads");
            assert_eq!((interval.sent, merged.count), (200, 200));
            let wanted = if place % 10 == 5 { STALL + SERVICE } else { SERVICE };
            assert_is(merged.max_us, wanted);
        }
    });
}
