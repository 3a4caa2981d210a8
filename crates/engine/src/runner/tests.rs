//! Runners with real models, made here: see `tests/onnx.rs`.

pub(crate) mod onnx;

use super::{LogLevel, Run, RunError, Runner, used_again};
use crate::{Artifact, MemoryBudget, Runtime, ScanFacts, ScanLimits, beside_executable};
use bytes::Bytes;
use flyball_core::{DataType, Digest, Tensor, TensorData};

pub(crate) fn runner(model: Vec<u8>) -> Runner {
    Runner::new(&runtime(), &artifact(model), LogLevel::ErrorsOnly).unwrap()
}

pub(crate) fn runtime() -> Runtime {
    Runtime::open(&beside_executable().unwrap()).unwrap()
}

pub(crate) fn artifact(model: Vec<u8>) -> Artifact {
    let facts = ScanFacts::of(&model, &ScanLimits::default()).unwrap();
    Artifact { digest: Digest::of(&model), facts, model, external_data: Vec::new(), defaults: Vec::new() }
}

fn tensor(datatype: DataType, shape: &[i64], data: TensorData) -> Tensor {
    Tensor { name: "x".into(), datatype, shape: shape.into(), data }
}

fn floats(values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(DataType::Fp32, &[values.len() as i64], TensorData::Fixed(bytes.into()))
}

#[test]
fn the_rows_of_several_requests_come_out_behind_each_other_in_every_datatype() {
    for (datatype, element_type) in onnx::ELEMENT_TYPES {
        let mut runner = runner(onnx::identity(element_type));
        let part = |byte: u8, rows: i64| {
            let data = match datatype.size() {
                Some(size) => TensorData::Fixed(vec![byte; size * rows as usize].into()),
                None => TensorData::Strings(vec![byte.to_string().into(); rows as usize]),
            };
            tensor(datatype, &[rows], data)
        };
        let mut outputs = Vec::new();
        // Twice, the second time with fewer rows: nothing of the first batch may remain.
        for rows in [[5, 2], [1, 3]] {
            runner.clear();
            runner.add(&[part(1, rows[0])]);
            runner.add(&[part(0, rows[1])]);
            runner.run(&mut outputs).unwrap();
            assert_eq!((outputs.len(), &*outputs[0].name), (1, "y"));
            assert_eq!(outputs[0].shape.as_slice(), [rows[0] + rows[1]], "{datatype:?}");
            let wanted = match (part(1, rows[0]).data, part(0, rows[1]).data) {
                (TensorData::Fixed(first), TensorData::Fixed(second)) => {
                    TensorData::Fixed(Bytes::from([first, second].concat()))
                }
                (TensorData::Strings(first), TensorData::Strings(second)) => {
                    TensorData::Strings([first, second].concat())
                }
                _ => panic!("one datatype has one form"),
            };
            assert_eq!(outputs[0].data, wanted, "{datatype:?}");
        }
    }
}

#[test]
fn strings_come_back_whole_whatever_is_in_them() {
    let mut runner = runner(onnx::identity(onnx::STRING));
    let long = b"x\0".repeat(5000);
    let requests: [&[&[u8]]; 4] =
        [&[b"he\0llo", b"", b"\0"], &["grün".as_bytes(), b"\xff\xfe", b""], &[&long], &[b"", b"\x80\0"]];
    let mut outputs = Vec::new();
    for requests in [&requests[..], &requests[1..2], &requests[..1]] {
        runner.clear();
        for strings in requests {
            let data =
                TensorData::Strings(strings.iter().map(|&string| Bytes::copy_from_slice(string)).collect());
            runner.add(&[tensor(DataType::Bytes, &[strings.len() as i64], data)]);
        }
        runner.run(&mut outputs).unwrap();
        let wanted: Vec<_> = requests.concat().into_iter().map(Bytes::copy_from_slice).collect();
        assert_eq!(outputs[0].shape.as_slice(), [wanted.len() as i64]);
        assert_eq!(outputs[0].data, TensorData::Strings(wanted));
    }
}

#[test]
fn a_request_without_strings_has_an_answer_without_strings() {
    let mut runner = runner(onnx::identity(onnx::STRING));
    runner.clear();
    runner.add(&[tensor(DataType::Bytes, &[0], TensorData::Strings(Vec::new()))]);
    let mut outputs = Vec::new();
    runner.run(&mut outputs).unwrap();
    assert_eq!(outputs[0].data, TensorData::Strings(Vec::new()));
}

#[test]
fn fewer_strings_than_the_shape_asks_for_are_refused() {
    let mut runner = runner(onnx::identity(onnx::STRING));
    runner.clear();
    runner.add(&[tensor(DataType::Bytes, &[2], TensorData::Strings(vec!["one".into()]))]);
    let failed = runner.run(&mut Vec::new());
    assert!(matches!(&failed, Err(RunError::Failed(text)) if text.contains("1 strings")), "{failed:?}");
}

#[test]
fn the_memory_of_input_values_is_used_again() {
    let (values, capacity) = (Vec::with_capacity(40), 40);
    assert_eq!(used_again(values).capacity(), capacity);
}

#[test]
fn the_memory_of_outputs_is_used_again_once_they_are_gone() {
    let mut runner = runner(onnx::identity(onnx::FLOAT));
    let mut outputs = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..2000 {
        runner.clear();
        runner.add(&[floats(&[1.0; 100])]);
        runner.run(&mut outputs).unwrap();
        let TensorData::Fixed(bytes) = &outputs[0].data else { panic!("floats are fixed") };
        addresses.push(bytes.as_ptr() as usize);
    }
    // The first run cannot know what it will need.
    let buffer = &addresses[1..];
    let spread = buffer.iter().max().unwrap() - buffer.iter().min().unwrap();
    assert!(spread < crate::output::RUNS_BYTES_MAX, "{spread} bytes apart");
}

#[test]
fn outputs_that_are_kept_do_not_change_when_the_model_runs_again() {
    let mut runner = runner(onnx::identity(onnx::FLOAT));
    let mut kept = Vec::new();
    for run in 0..200_u16 {
        let mut outputs = Vec::new();
        runner.clear();
        runner.add(&[floats(&[f32::from(run); 50])]);
        runner.run(&mut outputs).unwrap();
        kept.push((run, outputs));
    }
    for (run, outputs) in kept {
        assert_eq!(outputs[0].data, floats(&[f32::from(run); 50]).data);
    }
}

#[test]
fn a_run_that_would_never_end_is_stopped_from_another_thread_and_the_next_one_runs() {
    let mut runner = runner(onnx::looped());
    let stop = runner.stopper();
    let run = |runner: &mut Runner, trips: i64| {
        let trips = Bytes::from(trips.to_le_bytes().to_vec());
        runner.clear();
        runner.add(&[tensor(DataType::Int64, &[], TensorData::Fixed(trips))]);
        let mut outputs = Vec::new();
        runner.run(&mut outputs).map(|()| outputs)
    };
    let stopped = std::thread::scope(|scope| {
        let endless = scope.spawn(|| run(&mut runner, i64::MAX));
        // A stop before the run starts is ignored, so it is repeated until the run has ended.
        while !endless.is_finished() {
            stop();
            std::thread::yield_now();
        }
        endless.join().unwrap()
    });
    assert_eq!(stopped, Err(RunError::Stopped));
    let outputs = run(&mut runner, 3).unwrap();
    assert_eq!(outputs[0].data, TensorData::Fixed(Bytes::copy_from_slice(&3.0_f32.to_le_bytes())));
}

/// Runs the model that makes this many zeros.
fn zeros(runner: &mut Runner, count: i64) -> Result<Tensor, RunError> {
    runner.clear();
    let count = TensorData::Fixed(Bytes::copy_from_slice(&count.to_le_bytes()));
    runner.add(&[tensor(DataType::Int64, &[1], count)]);
    let mut outputs = Vec::new();
    runner.run(&mut outputs).map(|()| outputs.swap_remove(0))
}

#[test]
fn a_run_that_wants_more_memory_than_it_may_have_fails_alone() {
    let bytes_max = 8 << 20;
    let budget = MemoryBudget { run_bytes_max: bytes_max, ..MemoryBudget::UNLIMITED };
    let runtime = runtime().within(budget);
    let mut runner = Runner::new(&runtime, &artifact(onnx::grown()), LogLevel::ErrorsOnly).unwrap();
    for _ in 0..3 {
        let failed = zeros(&mut runner, 900_000_000).unwrap_err();
        assert_eq!(failed, RunError::MemoryExceeded { wanted: 3_600_000_000, bytes_max });
        assert_eq!(zeros(&mut runner, 1000).unwrap().shape.as_slice(), [1000]);
        assert_eq!(zeros(&mut runner, 1_900_000).unwrap().shape.as_slice(), [1_900_000]);
    }
}

#[test]
fn a_run_for_which_the_process_has_no_memory_left_fails_alone() {
    crate::memory::look();
    let bytes_max = crate::resident_bytes() + (64 << 20);
    let runtime = runtime().within(MemoryBudget { bytes_max, ..MemoryBudget::UNLIMITED });
    let mut runner = Runner::new(&runtime, &artifact(onnx::grown()), LogLevel::ErrorsOnly).unwrap();
    assert_eq!(zeros(&mut runner, 900_000_000), Err(RunError::MemoryFull { bytes_max }));
    assert_eq!(zeros(&mut runner, 1000).unwrap().shape.as_slice(), [1000]);
}

#[test]
fn a_large_output_outlives_its_session_and_reads_the_same() {
    let mut runner = runner(onnx::grown());
    let large = zeros(&mut runner, 500_000).unwrap();
    let another = zeros(&mut runner, 600_000).unwrap();
    drop(runner);
    assert_eq!(large.data, TensorData::Fixed(vec![0; 2_000_000].into()));
    assert_eq!(another.data, TensorData::Fixed(vec![0; 2_400_000].into()));
}

#[test]
fn a_division_that_the_processor_cannot_do_fails_its_run_and_not_the_process() {
    let mut runner = runner(onnx::divided());
    let mut divide = |dividend: i64| {
        runner.clear();
        let bytes = Bytes::copy_from_slice(&dividend.to_le_bytes());
        runner.add(&[tensor(DataType::Int64, &[1], TensorData::Fixed(bytes))]);
        let mut outputs = Vec::new();
        runner.run(&mut outputs).map(|()| outputs.swap_remove(0).data)
    };
    for _ in 0..3 {
        assert_eq!(divide(i64::MIN), Err(RunError::Failed(crate::division::TRAPPED.to_owned())));
        assert_eq!(divide(7), Ok(TensorData::Fixed(Bytes::copy_from_slice(&(-7_i64).to_le_bytes()))));
    }
}

#[test]
fn a_run_that_fails_by_itself_says_why() {
    let mut runner = runner(onnx::identity(onnx::FLOAT));
    runner.clear();
    let two_axes = TensorData::Fixed(Bytes::from_static(&[0; 4]));
    runner.add(&[tensor(DataType::Fp32, &[1, 1], two_axes)]);
    let failed = runner.run(&mut Vec::new());
    assert!(matches!(&failed, Err(RunError::Failed(text)) if text.contains("Invalid rank")), "{failed:?}");
}
