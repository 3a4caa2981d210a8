//! From `decide`'s entry to the reply, on the thread of one lane: no heap allocation of ours.
//!
//! Allocations of the `ort` crate are recognised by their stack.

use crate::{MODEL, allocator, bundle, onnx};
use bytes::{Bytes, BytesMut};
use flyball_core::{
    Clock, DecisionRecord, Dialect, ModelRef, Protocol, RequestLimits, RunRecord, Shadow, Shadowed, Sink,
    WalkRecord, WallClock,
};
use flyball_deployments::{AckState, Engine, Loader, TrustGate};
use flyball_engine::{MemoryBudget, ModelHosts, Runtime, beside_executable};
use flyball_plane::{
    Arrival, Inference, Lane, LaneInbox, Lanes, Plane, PlaneLimits, PlaneServices, Walk, serve,
};
use flyball_telemetry::{LaneSink, ModelMeter, Telemetry};
use flyball_wire::proto::inference::infer_parameter::ParameterChoice;
use flyball_wire::proto::inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use flyball_wire::proto::inference::{InferParameter, ModelInferRequest};
use flyball_wire::{GrpcDialect, GrpcReply, HttpDialect, HttpReply};
use prost::Message;
use serde_json::json;
use std::backtrace::Backtrace;
use std::borrow::Cow;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::LocalSet;

/// After these, buffers have reached their size.
const WARM_ROUNDS: usize = 300;
/// Enough for every buffer to be used up and reused.
const ROUNDS: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(5);

#[test]
fn a_request_over_rest_binary_makes_no_heap_allocation_of_ours() {
    assert_none_of_ours(&http(), Protocol::Http, 1, |reply: &HttpReply| reply.status == 200);
}

#[test]
fn a_request_over_grpc_raw_makes_no_heap_allocation_of_ours() {
    assert_none_of_ours(&grpc(), Protocol::Grpc, 1, |reply| matches!(reply, GrpcReply::Frame(_)));
}

#[test]
fn eight_requests_over_rest_binary_that_share_a_run_make_no_heap_allocation_of_ours() {
    assert_none_of_ours(&http(), Protocol::Http, 8, |reply: &HttpReply| reply.status == 200);
}

#[test]
fn eight_requests_over_grpc_raw_that_share_a_run_make_no_heap_allocation_of_ours() {
    assert_none_of_ours(&grpc(), Protocol::Grpc, 8, |reply| matches!(reply, GrpcReply::Frame(_)));
}

#[test]
fn an_allocation_on_the_way_is_noticed() {
    let (dialect, body) = http();
    let wasteful = Wasteful(dialect);
    let stacks = stacks(&(wasteful, body), Protocol::Http, 1, |reply: &HttpReply| reply.status == 200);
    assert_eq!(stacks.iter().filter(|stack| !inside_ort(stack)).count(), ROUNDS);
    assert!(stacks.iter().any(|stack| inside_ort(stack)), "those of the ort crate are recognised");
}

fn assert_none_of_ours<D: Dialect>(
    request: &(D, Bytes),
    protocol: Protocol,
    at_once: usize,
    good: fn(&D::Reply) -> bool,
) {
    let mut ours = stacks(request, protocol, at_once, good);
    ours.retain(|stack| !inside_ort(stack));
    let count = ours.len();
    ours.sort();
    ours.dedup();
    assert_eq!(count, 0, "in {ROUNDS} rounds, at\n{}", ours.join("\n\n"));
}

/// Whether the `ort` crate allocated. Only paths that start with its name count: a vector of its values that we grow is
/// ours.
fn inside_ort(stack: &str) -> bool {
    let path = |line: &str| line.trim_start().split_once(": ").map(|(_number, path)| path.to_owned());
    stack.lines().filter_map(path).any(|path| path.trim_start_matches(['<', '&']).starts_with("ort::"))
}

/// The stack of each allocation in some rounds of `at_once` requests, after a warm-up.
fn stacks<D: Dialect>(
    (dialect, body): &(D, Bytes),
    protocol: Protocol,
    at_once: usize,
    good: fn(&D::Reply) -> bool,
) -> Vec<String> {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let heard = LocalSet::new().block_on(&runtime, async {
        let (lane, inbox) = (Rc::clone(&world.lane), world.inbox.take().unwrap());
        let walking = tokio::task::spawn_local(async move { lane.run(inbox).await });
        let mut heard: Vec<Backtrace> = Vec::new();
        for number in 0..WARM_ROUNDS + ROUNDS {
            let (replies, more) = round(&world.lane, dialect, body, protocol, at_once).await;
            assert!(replies.iter().all(good), "round {number}");
            if number >= WARM_ROUNDS {
                heard.extend(more);
            }
        }
        walking.abort();
        heard
    });
    let last = &world.lane_runs.borrow()[WARM_ROUNDS..];
    assert_eq!(last, [at_once; ROUNDS], "the requests of a round share a run");
    heard.iter().map(shortened).collect()
}

/// A stack as text, up to the poll of the walks in this file, or of the lane in the runtime.
fn shortened(stack: &Backtrace) -> String {
    let text = stack.to_string();
    let kept = text.lines().take_while(|line| !line.contains("decided.rs"));
    kept.filter(|line| !line.contains("allocator.rs")).collect::<Vec<_>>().join("\n")
}

/// Runs requests concurrently, and listens from the first entry to the last reply.
async fn round<D: Dialect>(
    lane: &Rc<Lane<Rows>>,
    dialect: &D,
    body: &Bytes,
    protocol: Protocol,
    at_once: usize,
) -> (Vec<D::Reply>, Vec<Backtrace>) {
    let walk = |_| {
        let deadline = Some(lane.now().after(TIMEOUT));
        let body = body.clone();
        let arrival =
            Arrival { walk: Walk::begin(lane, protocol, Duration::ZERO), body: async { Ok(body) }, deadline };
        Some(Box::pin(async move { serve(lane, &Inference(dialect), arrival).await }))
    };
    let mut walks: Vec<Option<Pin<Box<_>>>> = (0..at_once).map(walk).collect();
    let mut replies = Vec::with_capacity(at_once);
    allocator::listen();
    poll_fn(|context| {
        for walk in &mut walks {
            if let Some(Poll::Ready(reply)) = walk.as_mut().map(|walk| walk.as_mut().poll(context)) {
                replies.push(reply);
                *walk = None;
            }
        }
        if replies.len() == at_once { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (replies, allocator::heard())
}

/// A plane with one lane and one model.
struct World {
    lane: Rc<Lane<Rows>>,
    inbox: RefCell<Option<LaneInbox<ModelMeter>>>,
    lane_runs: Rc<RefCell<Vec<usize>>>,
    _compute: LaneInbox<ModelMeter>,
    _loader: Loader<ModelMeter>,
}

impl World {
    fn new() -> World {
        let limits = PlaneLimits {
            request: RequestLimits::for_body(1 << 20),
            in_flight_max: 100,
            // Even on a slow machine the runs stay on the listening lane.
            inline_run_max: Duration::from_secs(1),
            answer_bytes_max: 64 << 20,
            memory: MemoryBudget::UNLIMITED,
        };
        let clock = Clock::system();
        let services = PlaneServices::in_memory(clock.clone(), WallClock::system());
        let (plane, mut inboxes) = Plane::new(Lanes { sockets: 1, compute: 1 }, limits, clock, services);
        let telemetry = Telemetry::new(inboxes.len());
        // The last one belongs to the spare lane, which is unused here.
        inboxes.truncate(2);
        let (compute, inbox) = (inboxes.pop().unwrap(), inboxes.pop().unwrap());
        let runtime = Runtime::open(&beside_executable().unwrap()).unwrap();
        let meters = Arc::clone(&telemetry);
        let gate = Arc::new(TrustGate::open());
        let engine =
            Engine { runtime, hosts: ModelHosts::in_this_process(), memory: MemoryBudget::UNLIMITED };
        let loader = Loader::new(engine, Arc::clone(&plane), meters, gate, 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let acks = loader.apply(&bundle(&folder), &|| false).acks;
        assert_eq!(acks[0].state, AckState::Applied, "{acks:?}");
        let lane_runs = Rc::new(RefCell::new(Vec::with_capacity(WARM_ROUNDS + ROUNDS)));
        let rows = Rows { sink: telemetry.sink(0), runs: Rc::clone(&lane_runs) };
        let (lane, inbox) = (Lane::new(plane, 0, rows), RefCell::new(Some(inbox)));
        World { lane, inbox, lane_runs, _compute: compute, _loader: loader }
    }
}

/// A server's own sink that also keeps the rows of each run.
struct Rows {
    sink: LaneSink,
    runs: Rc<RefCell<Vec<usize>>>,
}

impl Sink for Rows {
    type Model = ModelMeter;

    fn received(&self) {
        self.sink.received();
    }

    fn record(&self, record: &WalkRecord<'_, ModelMeter>) {
        self.sink.record(record);
    }

    fn batch(&self, model: &ModelMeter, run: &RunRecord) {
        self.runs.borrow_mut().push(run.rows);
        self.sink.batch(model, run);
    }

    fn decided(&self, decision: &ModelMeter, row: &DecisionRecord) {
        self.sink.decided(decision, row);
    }

    fn repeated(&self, decision: &ModelMeter, rows: usize) {
        self.sink.repeated(decision, rows);
    }

    fn shadowed(&self, decision: &ModelMeter, of: Shadow, row: Shadowed) {
        self.sink.shadowed(decision, of, row);
    }
}

/// A dialect that allocates once for each request.
struct Wasteful(HttpDialect);

impl Dialect for Wasteful {
    type Reply = HttpReply;

    fn model(&self, body: &Bytes) -> Option<Cow<'_, ModelRef>> {
        self.0.model(body)
    }

    fn mentions(&self, body: &Bytes, parameter: &str) -> bool {
        self.0.mentions(body, parameter)
    }

    fn parse(
        &self,
        body: &Bytes,
        limits: &RequestLimits,
        spare: Vec<flyball_core::Tensor>,
    ) -> Result<flyball_core::InferRequest, flyball_core::Fault> {
        std::hint::black_box(Box::new(body.len()));
        self.0.parse(body, limits, spare)
    }

    fn size_max(&self, answer: &flyball_core::Answer<'_>) -> usize {
        self.0.size_max(answer)
    }

    fn answer(
        &self,
        answer: &flyball_core::Answer<'_>,
        out: &mut BytesMut,
    ) -> Result<HttpReply, flyball_core::Fault> {
        self.0.answer(answer, out)
    }

    fn refuse(&self, fault: &flyball_core::Fault) -> HttpReply {
        self.0.refuse(fault)
    }
}

/// One row of floats.
fn row() -> Vec<u8> {
    [1.5_f32; onnx::COLUMNS as usize].iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// As from a connection: a slice of a buffer that stays in use.
fn received(bytes: &[u8]) -> Bytes {
    BytesMut::from(bytes).split().freeze()
}

/// A request with every option: an id, named outputs, a timeout and a priority.
fn http() -> (HttpDialect, Bytes) {
    let input = |name: &str| {
        let parameters = json!({"binary_data_size": row().len()});
        json!({"name": name, "datatype": "FP32", "shape": [1, onnx::COLUMNS], "parameters": parameters})
    };
    let output = |name: &str| json!({"name": name, "parameters": {"binary_data": true}});
    let head = json!({
        "id": "request-0123",
        "parameters": {"timeout": TIMEOUT.as_micros() as u64, "priority": 1, "binary_data_output": true},
        "inputs": [input("a"), input("b")],
        "outputs": [output("z"), output("y")],
    })
    .to_string();
    let body = [head.as_bytes(), &row(), &row()].concat();
    let name = received(MODEL.as_bytes()).try_into().unwrap();
    let model = ModelRef { name, version: None };
    (
        HttpDialect {
            model,
            header_length: Some(head.len()),
            regions: None,
            strict_json: false,
            triton_statuses: false,
        },
        received(&body),
    )
}

fn grpc() -> (GrpcDialect, Bytes) {
    let input = |name: &str| InferInputTensor {
        name: name.into(),
        datatype: "FP32".into(),
        shape: vec![1, onnx::COLUMNS],
        ..InferInputTensor::default()
    };
    let output = |name: &str| InferRequestedOutputTensor { name: name.into(), ..Default::default() };
    let number =
        |number: u64| InferParameter { parameter_choice: Some(ParameterChoice::Uint64Param(number)) };
    let message = ModelInferRequest {
        model_name: MODEL.into(),
        id: "request-0123".into(),
        parameters: [
            ("timeout".to_owned(), number(TIMEOUT.as_micros() as u64)),
            ("priority".to_owned(), number(1)),
        ]
        .into(),
        inputs: vec![input("a"), input("b")],
        outputs: vec![output("z"), output("y")],
        raw_input_contents: vec![row().into(), row().into()],
        ..ModelInferRequest::default()
    };
    (GrpcDialect::default(), received(&message.encode_to_vec()))
}
