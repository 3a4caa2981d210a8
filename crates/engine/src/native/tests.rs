//! Models of converters against ONNX Runtime: `tests/golden/trees`, written by its `make.py`.

use super::*;
use crate::host::ModelHosts;
use crate::runner::tests::{artifact, onnx, runtime};
use crate::runner::{LogLevel, Run, Runner};
use crate::{LoadOptions, MemoryBudget, SessionOptions};
use flyball_core::TensorData;
use flyball_trees::ProbeRows;
use std::sync::Arc;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/trees");

pub(crate) fn golden(name: &str) -> Vec<u8> {
    std::fs::read(format!("{GOLDEN}/{name}.onnx")).unwrap()
}

fn session(artifact: &Artifact) -> Runner {
    Runner::new(&runtime(), artifact, LogLevel::ErrorsOnly).unwrap()
}

fn found(model: Vec<u8>) -> Option<NativeTrees> {
    let artifact = artifact(model);
    let mut runner = session(&artifact);
    let trees = TreeRunner::read(&artifact, &runner.signature)?;
    Some(prove(&mut runner, trees, ProofRuns::of(64), "1.31.1", &|| false))
}

fn trees(artifact: &Artifact, runner: &Runner) -> TreeRunner {
    TreeRunner::read(artifact, &runner.signature).unwrap().unwrap()
}

/// Rows of the models in the folder.
fn input(rows: &mut ProbeRows, count: usize) -> Tensor {
    let mut values = Vec::new();
    rows.extend(count, &mut values);
    let (shape, bytes) = ([count as i64, 6].as_slice().into(), bytemuck::cast_slice(&values).to_vec());
    Tensor { name: "x".into(), datatype: DataType::Fp32, shape, data: TensorData::Fixed(bytes.into()) }
}

fn run(runner: &mut Runner, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut outputs = Vec::new();
    runner.clear();
    inputs.iter().for_each(|input| runner.add(std::slice::from_ref(input)));
    runner.run(&mut outputs).unwrap();
    outputs
}

#[test]
fn models_of_converters_are_proven_bit_equal_to_onnx_runtime() {
    let mut proven = 0;
    for entry in std::fs::read_dir(GOLDEN).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|suffix| suffix != "onnx") || path.ends_with("lightgbm_forest.onnx") {
            continue;
        }
        let found = found(std::fs::read(&path).unwrap()).unwrap();
        // A model of three rows a run ends beyond the ten thousandth.
        let rows = if path.ends_with("fixed_rows.onnx") { "10,002" } else { "10,000" };
        let wanted = format!("native trees: {rows} rows bit-equal to ONNX Runtime 1.31.1");
        assert_eq!((found.on, found.finding), (true, wanted), "{path:?}");
        proven += 1;
    }
    assert_eq!(proven, 22);
}

#[test]
fn a_model_that_computes_more_than_trees_stays_with_onnx_runtime_and_its_operator_is_named() {
    let found = found(golden("lightgbm_forest")).unwrap();
    let wanted = "native trees do not support it: operator 'ArrayFeatureExtractor' of domain 'ai.onnx.ml'";
    assert_eq!((found.on, found.finding.as_str()), (false, wanted));
}

#[test]
fn a_model_without_trees_has_no_finding() {
    assert_eq!(found(onnx::identity(onnx::FLOAT)), None);
}

#[test]
fn the_first_row_that_differs_is_named_with_both_answers() {
    let theirs = artifact(golden("xgboost_two"));
    let ours = artifact(golden("lightgbm_two"));
    let mut runner = session(&theirs);
    let mut trees = trees(&ours, &runner);
    let difference = prove::compare(&mut runner, &mut trees, ProofRuns::of(8), &|| false).unwrap_err();
    assert!(difference.starts_with("row 1: output 'label' is ["), "{difference}");
    assert!(difference.contains(", in ONNX Runtime [") && difference.contains(", for ["), "{difference}");
}

#[test]
fn proven_trees_answer_every_number_of_rows_like_the_session_and_requests_of_a_batch_like_alone() {
    for name in ["lightgbm_two", "lightgbm_texts", "sklearn_extra"] {
        let artifact = artifact(golden(name));
        let (mut theirs, mut ours) = (session(&artifact), session(&artifact));
        let trees = trees(&artifact, &ours);
        let mut rows = trees.ensemble().probe_rows(6);
        ours.answer_by(trees);
        for count in [1, 2, 3, 7, 15, 16, 17, 33, 100] {
            let requests: Vec<Tensor> = (0..count).map(|_| input(&mut rows, 1)).collect();
            let together = run(&mut ours, &requests);
            assert_eq!(together, run(&mut theirs, &requests), "{name}: {count} rows");
            let alone = run(&mut ours, &requests[count - 1..]);
            if let (TensorData::Fixed(all), TensorData::Fixed(one)) =
                (&together[1 % together.len()].data, &alone[1 % alone.len()].data)
            {
                assert!(all.ends_with(one), "{name}: {count} rows");
            }
        }
        // Without rows the session answers.
        let none = [input(&mut rows, 0)];
        assert_eq!(run(&mut ours, &none), run(&mut theirs, &none), "{name}");
    }
}

#[test]
fn a_stopped_run_ends_before_its_next_rows() {
    let artifact = artifact(golden("lightgbm_two"));
    let runner = session(&artifact);
    let mut trees = trees(&artifact, &runner);
    let mut column = Column::default();
    column.add(&input(&mut trees.ensemble().probe_rows(6), 3));
    let (stop, mut buffer) = (Stop::new().unwrap(), OutputBuffer::new(&runner.signature.outputs));
    stop.request();
    let stopped = trees.run(&column, &stop, &mut buffer, &mut Vec::new());
    assert_eq!(stopped, Err(RunError::Stopped));
}

#[test]
fn a_loaded_tree_model_answers_natively_on_all_lanes_once_it_is_proven() {
    let options = LoadOptions { rows_max: 8, runners: 2, memory: MemoryBudget::UNLIMITED };
    let artifact = Arc::new(artifact(golden("sklearn_hist")));
    let hosts = ModelHosts::in_this_process();
    let mut loaded = runtime().load(Arc::clone(&artifact), options, &hosts, &|| false).unwrap();
    assert_eq!(loaded.batching.rows_max, 8);
    let mut session = session(&artifact);
    let mut rows = trees(&artifact, &session).ensemble().probe_rows(6);
    let request = [input(&mut rows, 5)];
    let answer = run(&mut session, &request);
    for runner in &mut loaded.runners {
        assert_eq!(run(runner, &request), answer);
        assert!(!runner.answers_natively());
    }
    let native = loaded.surveyor.prove_trees(&|| false).unwrap();
    assert!(native.on && native.finding.contains("10,000 rows bit-equal"), "{}", native.finding);
    for runner in &mut loaded.runners {
        assert_eq!(run(runner, &request), answer);
        assert!(runner.answers_natively());
    }
}

#[test]
fn a_proof_that_is_stopped_leaves_the_session_to_answer() {
    let options = LoadOptions { rows_max: 8, runners: 1, memory: MemoryBudget::UNLIMITED };
    let artifact = Arc::new(artifact(golden("sklearn_hist")));
    let hosts = ModelHosts::in_this_process();
    let mut loaded = runtime().load(artifact, options, &hosts, &|| false).unwrap();
    let native = loaded.surveyor.prove_trees(&|| true).unwrap();
    assert_eq!((native.on, &*native.finding), (false, "native trees are off: the model was removed"));
    assert!(!loaded.runners[0].answers_natively());
}

#[test]
fn a_tool_that_changes_the_session_or_profiles_it_runs_onnx_runtime() {
    let artifact = Arc::new(artifact(golden("xgboost_two")));
    let native = |options| {
        let hosts = ModelHosts::in_this_process();
        runtime().load_standalone(Arc::clone(&artifact), options, &hosts).unwrap().facts().native.clone()
    };
    assert!(native(SessionOptions::default()).unwrap().on);
    assert_eq!(native(SessionOptions { weights_as_given: true, ..SessionOptions::default() }), None);
}

#[test]
fn a_damaged_model_is_read_without_a_panic() {
    let model = golden("sklearn_hist");
    for place in (0..model.len()).step_by(7) {
        let mut damaged = model.clone();
        damaged[place] ^= 1 << (place % 8);
        for bytes in [&damaged[..], &model[..place]] {
            if let Some(Ok(read)) = TreeModel::read(bytes) {
                drop(Ensemble::new(read.attributes));
            }
        }
    }
}
