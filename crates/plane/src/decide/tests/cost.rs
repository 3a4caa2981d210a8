//! The cost of a record for its request. Prints nanoseconds, and asserts none:
//! `cargo test --release -p flyball-plane -- --ignored --nocapture an_entry_takes`.

use super::recorder::{Book, decoded};
use super::world::{World, document};
use crate::Decision;
use crate::batch::{Place, Ran};
use crate::decision_walk::DecisionWalk;
use crate::row_buffers::{Progress, RowBuffers, RowState};
use crate::testing::Made;
use crate::walk::Walk;
use flyball_core::{
    DataType, JournalRecord, Nanos, Protocol, Reason, RowSink, RowsOptions, Scalar, Stage, Tensor, TensorData,
};
use flyball_decision::{FeatureFact, Origin, row_numbers};
use flyball_journal::record_codec::ModelRun;
use serde_json::{Value as Json, json};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 200_000;
const CATEGORIES: [&str; 3] = ["online", "chip", "contactless"];

/// As large as the decision about a card payment among the examples: ten fields, one of them personal, three features.
fn card() -> Json {
    let mut document = document();
    let category = |name: &str| json!({"name": name, "type": "category", "values": CATEGORIES});
    document["input"].as_array_mut().unwrap().extend([
        json!({"name": "card_id", "type": "string", "key": true, "pii": true}),
        json!({"name": "time", "type": "time"}),
        json!({"name": "amount", "type": "float"}),
        category("currency"),
        category("country"),
        json!({"name": "mcc", "type": "int"}),
        category("channel"),
        json!({"name": "distance_km", "type": "float"}),
    ]);
    let window = |op: &str, of: Json| json!({"op": op, "of": of, "by": "card_id", "last_ms": 3_600_000});
    document["features"] = json!([
        {"name": "spent_1h", "type": "float", "window": window("sum", json!("amount"))},
        {"name": "payments_1h", "type": "float", "window": window("count", Json::Null)},
        {"name": "home", "type": "category", "values": CATEGORIES, "compute": "country"},
    ]);
    document
}

fn sent<M>(decision: &Decision<M>, buffers: &mut RowBuffers) {
    let program = &decision.program;
    program.begin(&mut buffers.rows);
    let mut reader = program.reader(&mut buffers.rows);
    reader.row(None);
    for (name, value) in [
        ("x", Scalar::Int(3)),
        ("card_id", Scalar::Text("card-0123456789")),
        ("time", Scalar::Float(1_794_787_200.25)),
        ("amount", Scalar::Float(129.5)),
        ("currency", Scalar::Text("chip")),
        ("country", Scalar::Text("chip")),
        ("mcc", Scalar::Int(5411)),
        ("channel", Scalar::Text("online")),
        ("distance_km", Scalar::Float(12.25)),
    ] {
        reader.field(name, value);
    }
    reader.finish();
    let found = [Scalar::Float(730.0), Scalar::Float(4.0), Scalar::Text("chip")];
    for (feature, value) in found.into_iter().enumerate() {
        let fact = FeatureFact { origin: Origin::Window, age_ms: (feature == 2).then_some(12_000) };
        assert!(program.put(&mut buffers.rows, 0, feature, value, fact));
    }
    program.begin_scores(&buffers.rows, &mut buffers.scores);
    buffers.scores.set(0, 0, 0.125);
}

fn ran() -> Ran {
    let numbers = [0.875_f32, 0.125].iter().flat_map(|number| number.to_le_bytes());
    let output = Tensor {
        name: "probabilities".into(),
        datatype: DataType::Fp32,
        shape: [1, 2].into_iter().collect(),
        data: TensorData::Fixed(numbers.collect::<Vec<_>>().into()),
    };
    Ran { outputs: vec![output], began: Nanos(0), ended: Nanos(0), batch: Place { rows: 8, first: 3 } }
}

#[test]
#[ignore = "a measurement"]
fn an_entry_takes_so_long() {
    let book = Arc::new(Book::default());
    let world = World::by(|services| services.recorder = Some(book), Made::usual(), &[1, 2], &card());
    let routes = world.lane.plane.routes.load();
    let decision = routes.get("d").unwrap().decision.as_ref().unwrap();
    let mut buffers = world.lane.services.buffers.lend();
    sent(decision, &mut buffers);
    let verdict = decision.program.policy.evaluate(&buffers.rows, 0, Some(0.125)).unwrap();
    let mut state =
        RowState::new(world.lane.services.random.id(0), 0, Progress::Decided { verdict, score: Some(0.125) });
    for field in ["amount", "spent_1h", "distance_km", "country"] {
        state.reasons.push(Reason {
            code: "R02".into(),
            text: None,
            contribution: Some((field.into(), 0.25)),
        });
    }
    buffers.states.clear();
    buffers.states.push(state);
    let ask = RowsOptions { single: true, ..RowsOptions::default() };
    let mut walk = Walk::begin(&world.lane, Protocol::Http, Duration::ZERO);
    for (place, stage) in Stage::ALL.into_iter().enumerate() {
        walk.end_at(stage, Nanos(1_000_000 + 1000 * place as u64));
    }
    let (ran, mut entry) = (ran(), JournalRecord::default());
    let mut decided = DecisionWalk::new(&world.lane, decision, &ask, buffers, None);
    let began = Instant::now();
    for _ in 0..ROUNDS {
        decided.buffers.runs.begin(1, 1);
        let run = ModelRun { model: 0, rows: &[0], batch_rows: 8, first: 3, outputs: &ran.outputs };
        decided.buffers.runs.note(&run, |_| true, |output, at| row_numbers(output, 1, at, 16));
        entry.clear();
        let facts = decided.request_facts(&walk);
        decided.write_record(0, &facts, &mut entry);
        black_box(&entry);
    }
    let took = began.elapsed() / ROUNDS;
    let bytes = entry.pairs.len() + entry.input.len() + entry.personal.len();
    println!("{} ns and {bytes} bytes an entry: {}", took.as_nanos(), decoded(&entry));
}
