//! A lane's allocations per request from socket to socket, including hyper and ONNX Runtime's bindings.

use crate::{MODEL, allocator, bundle, onnx};
use flyball_load::{Payloads, Plan, Run};
use flyball_server::{Server, ServerConfig};
use serde_json::json;
use std::time::{Duration, Instant};

/// The recorded allocations per request. They may only fall: lower the number here when they do.
const RECORDED: [(&str, u64); 2] = [("http-binary", 14), ("grpc", 15)];

const WARM_REQUESTS: u64 = 500;
const REQUESTS: u64 = 2000;
const PATIENCE: Duration = Duration::from_secs(60);

// One test for both, in sequence: the allocator sums over all lanes of the process.
#[test]
fn a_lane_allocates_no_more_for_a_request_than_was_recorded() {
    for (protocol, recorded) in RECORDED {
        let measured = allocations_for_a_request(protocol);
        println!("{protocol}: {measured:.3} allocations for each request, {recorded} recorded");
        let now = measured.round() as u64;
        assert!(
            now <= recorded,
            "{protocol}: {measured:.3} allocations for each request, {recorded} recorded"
        );
        assert!(
            now == recorded,
            "{protocol}: only {measured:.3} now; lower the constant from {recorded} to {now}"
        );
    }
}

fn allocations_for_a_request(protocol: &str) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let config = ServerConfig {
        listen: vec!["127.0.0.1:0".to_owned()],
        lanes: Some(1),
        // Even on a slow machine the runs stay on the counted lane.
        inline_run_us_max: 100_000,
        unsigned: "allow".to_owned(),
        log: "error".to_owned(),
        ..ServerConfig::default()
    };
    let server = Server::start(config, &bundle(&folder), None).unwrap();
    assert_eq!(server.nothing_served(), None);
    allocator::count_lanes();
    let plan = json!({
        "url": format!("http://{}", server.addresses()[0]),
        "model": MODEL,
        "protocol": protocol,
        "connections": 1,
        "duration_s": 2.0 * PATIENCE.as_secs_f64(),
        "warmup": {"least_s": 0.0, "most_s": 0.0},
        "timeout_ms": 10_000,
    });
    let tensor = |name: &str| {
        let data = [1.5_f32; onnx::COLUMNS as usize];
        json!({"name": name, "datatype": "FP32", "shape": [1, onnx::COLUMNS], "data": data})
    };
    let row = json!({"inputs": [tensor("a"), tensor("b")], "outputs": null}).to_string();
    let payloads = Payloads::from_jsonl(row.as_bytes()).unwrap();
    let run = Run::start(Plan::from_json(plan.to_string().as_bytes()).unwrap(), payloads).unwrap();
    let (warm, warm_allocations) = after(&server, WARM_REQUESTS);
    let (all, allocations) = after(&server, warm + REQUESTS);
    run.stop();
    let outcome = run.result().unwrap();
    assert_eq!(
        (outcome.refused, outcome.failed, outcome.mismatched),
        (0, 0, 0),
        "{:?}",
        outcome.first_problem
    );
    (allocations - warm_allocations) as f64 / (all - warm) as f64
}

/// Requests and allocations so far, once enough requests are answered.
fn after(server: &Server, requests: u64) -> (u64, u64) {
    let began = Instant::now();
    while server.totals().answered < requests {
        assert!(began.elapsed() < PATIENCE, "the load does not get on: {:?}", server.totals());
        std::thread::sleep(Duration::from_millis(1));
    }
    (server.totals().answered, allocator::on_lanes())
}
