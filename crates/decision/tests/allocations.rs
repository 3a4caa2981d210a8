//! A request allocates nothing in the program once its memory is warm.
//!
//! Counted by the test binary's allocator, which forwards to the system's.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test, and the line says enough")]

use flyball_core::{DataType, RowSink, Scalar, Tensor, TensorData, TensorSpec};
use flyball_decision::{DecisionDocument, ModelFacts, Program, Rows, Scores, Scratch};
use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches none of its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: the caller upholds the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

fn program() -> Program {
    let document = json!({
        "owner": "risk", "purpose": "to count",
        "input": [
            {"name": "card", "type": "string"},
            {"name": "amount", "type": "float", "min": 0.0},
            {"name": "country", "type": "category", "values": ["CH", "FR"], "unknown": "other"},
            {"name": "at", "type": "time"},
            {"name": "note", "type": "string", "required": false, "default": "none"},
        ],
        "features": [{"name": "dear", "type": "bool", "compute": "amount > 100.0"}],
        "transforms": [
            {"op": "log1p", "of": ["amount"]},
            {"op": "standardize", "of": ["amount"], "mean": [3.0], "scale": [2.0]},
            {"op": "cross", "of": ["country", "note"], "into": "both"},
            {"op": "hash", "of": ["both"], "buckets": 64},
            {"op": "one_hot", "of": ["country"], "values": [["CH", "FR"]]},
            {"op": "date_parts", "of": ["at"], "parts": ["hour", "weekend"]},
        ],
        "models": [{"name": "only", "version": "1", "score": {"output": "p", "element": 1}, "inputs": [{"tensor": "x",
            "columns": ["amount", "both", "country=CH", "country=FR", "at.hour", "at.weekend", "dear"]}]}],
        "variants": [{"name": "only", "models": ["only"], "weights": {"only": 1.0}},
                     {"name": "same", "models": ["only"], "weights": {"only": 0.5}}],
        "route": {"split": {"same": 0.5}, "sticky": "card"},
        "policy": {"outcomes": ["pass", "reject"], "rules": [{"when": "dear && country == 'FR'", "then": "reject"}],
                   "bands": [{"name": "pass", "to": 0.5}, {"name": "reject", "from": 0.5}]},
    });
    let inputs = [TensorSpec { name: "x".into(), datatype: DataType::Fp32, shape: vec![-1, 7] }];
    let outputs = [TensorSpec { name: "p".into(), datatype: DataType::Fp32, shape: vec![-1, 2] }];
    let facts = ModelFacts { version: "1", inputs: &inputs, outputs: &outputs, explain: None };
    Program::compile(&DecisionDocument::read(&document).unwrap(), &[facts]).unwrap()
}

/// A lane's memory between requests.
#[derive(Default)]
struct Memory {
    rows: Rows,
    scores: Scores,
    scratch: Scratch,
    tensors: Vec<Tensor>,
}

fn decide(program: &Program, memory: &mut Memory, answer: &[Tensor]) {
    let Memory { rows, scores, scratch, tensors } = memory;
    program.begin(rows);
    let mut reader = program.reader(rows);
    for amount in [12.5, 1250.0] {
        reader.row(Some("a"));
        reader.field("card", Scalar::Text("4111"));
        reader.field("amount", Scalar::Float(amount));
        reader.field("at", Scalar::Text("2026-01-31T12:00:00Z"));
        reader.field("country", Scalar::Text("FR"));
    }
    reader.finish();
    program.begin_scores(rows, scores);
    for row in 0..2 {
        assert!(rows.sound(row) && program.compute(rows, row, 0));
    }
    program.tensors(0, rows, &[0, 1], scores, scratch, tensors);
    assert_eq!(tensors[0].shape.as_slice(), [2, 7]);
    // The model has run: its inputs are returned.
    tensors.clear();
    program.scores(0, answer, &[0, 1], scores).unwrap();
    for row in 0..2 {
        let variant = program.route.choose(rows, row, 7);
        let score = program.score(variant, row, scores);
        program.policy.evaluate(rows, row, Some(score)).unwrap();
    }
}

#[test]
fn a_request_allocates_nothing_once_its_memory_is_warm() {
    let program = program();
    let data: Vec<u8> = [0.9_f32, 0.1, 0.2, 0.8].iter().flat_map(|score| score.to_le_bytes()).collect();
    let data = TensorData::Fixed(data.into());
    let answer =
        [Tensor { name: "p".into(), datatype: DataType::Fp32, shape: [2, 2].as_slice().into(), data }];
    let mut memory = Memory::default();
    (0..10).for_each(|_| decide(&program, &mut memory, &answer));
    let before = ALLOCATED.get();
    assert!(before > 0, "setting up allocates, and is counted");
    (0..1000).for_each(|_| decide(&program, &mut memory, &answer));
    assert_eq!(ALLOCATED.get() - before, 0);
}
