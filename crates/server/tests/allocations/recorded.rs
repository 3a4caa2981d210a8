//! Recorded decisions on the thread of one lane: a record is written into reused memory without allocations.

use crate::{allocator, onnx};
use bytes::Bytes;
use flyball_core::snapshot::Bundle;
use flyball_core::{
    Clock, Digest, JournalRecord, LaneRecorder, Protocol, RecordKind, Recorder, Registered, RequestLimits,
    Served, Ticket, Unavailable, WallClock,
};
use flyball_deployments::{AckState, Engine, Loader, TrustGate};
use flyball_engine::{MemoryBudget, ModelHosts, Runtime, beside_executable};
use flyball_plane::{Arrival, DecisionRequest, Lane, Lanes, Plane, PlaneLimits, PlaneServices, Walk, serve};
use flyball_telemetry::Telemetry;
use flyball_wire::HttpDecision;
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::LocalSet;

const WARM_ROUNDS: usize = 300;
const ROUNDS: usize = 200;

#[test]
fn a_record_allocates_nothing_once_its_memory_has_grown() {
    for rows in [1, 8] {
        let book = Arc::new(Book::default());
        let (without, with) = (allocations(None, rows), allocations(Some(Arc::clone(&book)), rows));
        assert_eq!(book.decisions.load(Relaxed), rows * (WARM_ROUNDS + ROUNDS));
        assert_eq!(book.served.load(Relaxed), 1);
        // On a busy machine something else allocates once in thousands of rounds. A record would in every round, or whenever
        // its memory grows.
        assert_eq!(with[ROUNDS / 2], without[ROUNDS / 2], "{rows} rows, the median of {ROUNDS} rounds");
        let [with, without] = [&with, &without].map(|rounds| rounds.iter().sum::<usize>());
        assert!(
            with <= without + 1,
            "{rows} rows: {with} allocations in {ROUNDS} rounds, {without} without records"
        );
    }
}

/// The allocations of each of some rounds, sorted; a round is one request for many rows.
fn allocations(book: Option<Arc<Book>>, rows: usize) -> Vec<usize> {
    let limits = PlaneLimits {
        request: RequestLimits::for_body(1 << 20),
        in_flight_max: 100,
        inline_run_max: Duration::from_secs(1),
        answer_bytes_max: 64 << 20,
        memory: MemoryBudget::UNLIMITED,
    };
    let clock = Clock::system();
    let mut services = PlaneServices::in_memory(clock.clone(), WallClock::system());
    services.recorder = book.map(|book| Arc::new(Shared(book)) as Arc<dyn Recorder>);
    let (plane, mut inboxes) = Plane::new(Lanes { sockets: 1, compute: 1 }, limits, clock, services);
    let telemetry = Telemetry::new(inboxes.len());
    let runtime = Runtime::open(&beside_executable().unwrap()).unwrap();
    let meters = Arc::clone(&telemetry);
    let gate = Arc::new(TrustGate::open());
    let engine = Engine { runtime, hosts: ModelHosts::in_this_process(), memory: MemoryBudget::UNLIMITED };
    let loader = Loader::new(engine, Arc::clone(&plane), meters, gate, 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let acks = loader.apply(&bundle(&folder), &|| false).acks;
    assert_eq!(acks[0].state, AckState::Applied, "{acks:?}");
    let (lane, inbox) = (Lane::new(plane, 0, telemetry.sink(0)), inboxes.remove(0));
    let body = body(rows);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let walking = Rc::clone(&lane);
        let walking = tokio::task::spawn_local(async move { walking.run(inbox).await });
        let mut heard = Vec::with_capacity(ROUNDS);
        for number in 0..WARM_ROUNDS + ROUNDS {
            let dialect = HttpDecision { name: "d".into(), idempotency_key: None };
            let walk = Walk::begin(&lane, Protocol::Http, Duration::ZERO);
            let (body, deadline) = (body.clone(), None);
            let arrival = Arrival { walk, body: async { Ok(body) }, deadline };
            if number >= WARM_ROUNDS {
                allocator::listen();
            }
            let reply = serve(&lane, &DecisionRequest(&dialect), arrival).await;
            if number >= WARM_ROUNDS {
                heard.push(allocator::heard().len());
            }
            assert_eq!(reply.status, 200, "{reply:?}");
        }
        walking.abort();
        heard.sort_unstable();
        heard
    })
}

fn columns() -> impl Iterator<Item = String> {
    (0..onnx::COLUMNS).map(|column| format!("f{column}"))
}

fn body(rows: usize) -> Bytes {
    let mut input: serde_json::Map<String, Json> = columns().map(|name| (name, json!(1.5))).collect();
    input.insert("key".to_owned(), json!("card-7"));
    input.insert("who".to_owned(), json!("Ada Lovelace"));
    let rows: Vec<_> = (0..rows).map(|row| json!({"id": row.to_string(), "input": input})).collect();
    Bytes::from(json!({"rows": rows}).to_string())
}

fn bundle(folder: &tempfile::TempDir) -> Bundle {
    let model = onnx::sums();
    let path = folder.path().join("sums.onnx");
    std::fs::write(&path, &model).unwrap();
    let names: Vec<_> = columns().collect();
    let mut fields: Vec<_> = names.iter().map(|name| json!({"name": name, "type": "float"})).collect();
    fields.push(json!({"name": "key", "type": "string", "key": true}));
    fields.push(json!({"name": "who", "type": "string", "pii": true}));
    let inputs = ["a", "b"].map(|tensor| json!({"tensor": tensor, "columns": names}));
    let decision = json!({
        "owner": "o", "purpose": "p", "input": fields,
        "features": [{"name": "high", "type": "bool", "compute": "f0 > 1.0"}],
        "models": [{"name": "m", "version": "1", "inputs": inputs, "score": {"output": "y"}}],
        "variants": [{"name": "champion", "models": ["m"], "weights": {"m": 1.0}}],
        "policy": {
            "bands": [{"name": "pass", "to": 10}, {"name": "reject", "from": 10}], "outcomes": ["pass", "reject"],
        },
    });
    let artifact = json!({"path": path, "digest": Digest::of(&model)});
    let document = json!({
        "format": 1, "name": "d", "route": {"version": "1"}, "versions": [{"version": "1", "artifact": artifact}],
        "decision": decision,
    })
    .to_string();
    let entry = json!({"name": "d", "digest": Digest::of(document.as_bytes())});
    let index = json!({"format": 1, "generation": 1, "deployments": [entry]}).to_string();
    Bundle::from_memory(json!({"index": index, "documents": [document]}).to_string().as_bytes()).unwrap()
}

/// Accepts every record and returns it for reuse.
#[derive(Default)]
struct Book {
    decisions: AtomicUsize,
    served: AtomicUsize,
}

struct Shared(Arc<Book>);

impl Recorder for Shared {
    fn lane(&self, _lane: usize) -> Box<dyn LaneRecorder> {
        Box::new(LaneBook { book: Arc::clone(&self.0), spare: RefCell::default() })
    }

    fn served(&self, _served: Served) {
        self.0.served.fetch_add(1, Relaxed);
    }

    fn registered(&self, _registered: Registered) {}
}

struct LaneBook {
    book: Arc<Book>,
    #[expect(clippy::vec_box, reason = "they come and go as boxes")]
    spare: RefCell<Vec<Box<JournalRecord>>>,
}

impl LaneRecorder for LaneBook {
    fn reserve(&self, _entries: usize) -> Result<(), Unavailable> {
        Ok(())
    }

    fn release(&self, _entries: usize) {}

    fn blank(&self) -> Box<JournalRecord> {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    fn offer(&self, mut entry: Box<JournalRecord>) -> Ticket {
        assert_eq!((entry.kind, entry.personal.is_empty()), (RecordKind::Decision, false));
        self.book.decisions.fetch_add(1, Relaxed);
        entry.clear();
        self.spare.borrow_mut().push(entry);
        Ticket(0)
    }

    fn poll_durable(&self, _ticket: Ticket, _context: &mut Context<'_>) -> Poll<Result<(), Unavailable>> {
        Poll::Ready(Ok(()))
    }

    fn orphan(&self, _ticket: Ticket) {}

    fn missed(&self, _decisions: usize, _why: Unavailable) {}
}
