//! Standalone models against real ones, made in `runner/tests/onnx.rs`.

use super::{InputMismatch, RUNS_MAX, RunFigures, StandaloneError, StandaloneModel};
use crate::runner::tests::{artifact, onnx, runtime};
use crate::{GraphLevel, ModelHosts, RunError, SessionOptions};
use bytes::Bytes;
use flyball_core::{DataType, Tensor, TensorData};
use std::sync::Arc;

fn load(model: Vec<u8>, options: SessionOptions) -> StandaloneModel {
    runtime().load_standalone(Arc::new(artifact(model)), options, &ModelHosts::in_this_process()).unwrap()
}

fn loaded(model: Vec<u8>) -> StandaloneModel {
    load(model, SessionOptions::default())
}

fn floats(name: &str, shape: &[i64], values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let data = TensorData::Fixed(bytes.into());
    Tensor { name: name.into(), datatype: DataType::Fp32, shape: shape.into(), data }
}

#[test]
fn it_answers_with_what_the_model_gives_and_knows_what_it_takes() {
    let mut model = loaded(onnx::row_sum(3));
    let outputs = model.run(vec![floats("x", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]).unwrap();
    assert_eq!(outputs, [floats("y", &[2, 1], &[6.0, 15.0])]);
    let facts = model.facts();
    assert_eq!((&*facts.inputs[0].name, facts.inputs[0].shape.as_slice()), ("x", &[-1, 3][..]));
    assert!(facts.size_bytes > 0 && facts.load_ms > 0.0, "{facts:?}");
}

#[test]
fn all_misfits_of_the_inputs_are_told_at_once() {
    let mut model = loaded(onnx::row_sum(3));
    let input_mismatch = |path: &str, is: Option<&str>, allowed: &str| InputMismatch {
        path: path.into(),
        is: is.map(str::to_owned),
        allowed: allowed.into(),
    };
    let wrong = vec![floats("z", &[1], &[0.0]), floats("x", &[1, 2], &[0.0; 2])];
    assert_eq!(
        model.run(wrong),
        Err(StandaloneError::Misfits(vec![
            input_mismatch("inputs.z", Some("FP32 [1]"), "no such input; the model has x"),
            input_mismatch("inputs.x", Some("FP32 [1, 2]"), "FP32 [-1, 3] (-1 is any size)"),
        ]))
    );
    let missing = input_mismatch("inputs.x", None, "required: FP32 [-1, 3] (-1 is any size)");
    assert_eq!(model.run(Vec::new()), Err(StandaloneError::Misfits(vec![missing])));
}

#[test]
fn a_measurement_counts_its_runs_and_rows_and_its_quantiles_ascend() {
    let mut model = loaded(onnx::row_sum(3));
    let figures = model.measure(vec![floats("x", &[2, 3], &[0.0; 6])], 50, 5).unwrap();
    assert_eq!((figures.runs, figures.rows), (50, 2));
    let RunFigures { p50_us, p95_us, p99_us, p999_us, max_us, .. } = figures;
    assert!([p50_us, p95_us, p99_us, p999_us, max_us].is_sorted() && p50_us > 0.0, "{figures:?}");
}

#[test]
fn quantiles_of_known_runs_are_the_known_ones() {
    let figures = RunFigures::of((1..=1001).rev().map(f64::from).collect(), 1, 7.0);
    assert_eq!((figures.p50_us, figures.p99_us, figures.p999_us), (501.0, 991.0, 1000.0));
    assert_eq!((figures.max_us, figures.mean_us, figures.cpu_us), (1001.0, 501.0, 7.0));
}

#[test]
fn a_measurement_without_runs_or_with_too_many_is_refused() {
    let mut model = loaded(onnx::row_sum(3));
    for (runs, warm_runs) in [(0, 0), (RUNS_MAX + 1, 0), (1, RUNS_MAX + 1)] {
        let refused = model.measure(vec![floats("x", &[1, 3], &[0.0; 3])], runs, warm_runs);
        assert!(matches!(refused, Err(StandaloneError::Refused(_))), "{refused:?}");
    }
}

#[test]
fn made_up_rows_are_as_many_as_asked_for_and_run() {
    let mut model = loaded(onnx::row_sum(-1));
    let inputs = model.sample_rows(3).unwrap();
    assert_eq!(inputs[0].shape.as_slice(), [3, 5]);
    assert_eq!(model.run(inputs).unwrap()[0].shape.as_slice(), [3, 1]);
    assert!(matches!(model.sample_rows(0), Err(StandaloneError::Refused(_))));
    assert!(matches!(model.sample_rows(usize::MAX), Err(StandaloneError::Refused(_))));
    let several = loaded(onnx::looped()).sample_rows(2);
    assert!(
        matches!(&several, Err(StandaloneError::Refused(text)) if text.contains("is a scalar")),
        "{several:?}"
    );
}

#[test]
fn a_profile_has_the_runs_it_was_asked_for_and_ends_once() {
    let folder = tempfile::tempdir().unwrap();
    let profile = Some(folder.path().join("p"));
    let options = SessionOptions { profile, graph: GraphLevel::Off, ..SessionOptions::default() };
    let mut model = load(onnx::row_sum(3), options);
    model.measure(vec![floats("x", &[1, 3], &[0.0; 3])], 4, 2).unwrap();
    let profile = model.end_profile().unwrap();
    assert!(profile.starts_with(folder.path()), "{profile:?}");
    let text = std::fs::read_to_string(profile).unwrap();
    assert_eq!(text.matches("\"model_run\"").count(), 6, "{text}");
    assert!(text.contains("ReduceSum"), "{text}");
    assert!(matches!(model.end_profile(), Err(StandaloneError::Refused(_))));
}

#[test]
fn a_measurement_that_would_never_end_is_stopped_from_another_thread() {
    let mut model = loaded(onnx::looped());
    let stop = model.stopper();
    let endless = Tensor {
        name: "x".into(),
        datatype: DataType::Int64,
        shape: [].as_slice().into(),
        data: TensorData::Fixed(Bytes::copy_from_slice(&i64::MAX.to_le_bytes())),
    };
    let stopped = std::thread::scope(|scope| {
        let running = scope.spawn(|| model.measure(vec![endless], 1, 0));
        while !running.is_finished() {
            stop();
            std::thread::yield_now();
        }
        running.join().unwrap()
    });
    assert_eq!(stopped, Err(StandaloneError::Run(RunError::Stopped)));
}
