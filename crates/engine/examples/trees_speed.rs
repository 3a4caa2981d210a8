//! Native trees against ONNX Runtime, per row: `cargo run --release --example trees_speed MODEL.onnx`.
//!
//! Both run as in a server, on one thread, in alternating windows over 4,096 random rows: a row that is repeated
//! teaches the processor its branches. Prints the median of the windows, with ONNX Runtime's first.

use bytes::Bytes;
use flyball_core::{DataType, Tensor, TensorData};
use flyball_engine::{Artifact, ModelHosts, Runtime, SessionOptions, StandaloneModel, beside_executable};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROWS: usize = 4096;
const WINDOWS: usize = 31;

fn main() {
    let path = std::env::args().nth(1).expect("usage: trees_speed MODEL.onnx");
    let runtime = Runtime::open(&beside_executable().expect("set ORT_DYLIB_PATH")).expect("it loads");
    let artifact = Arc::new(Artifact::read_unverified(Path::new(&path)).expect("it is a model"));
    let load = |options| {
        let hosts = ModelHosts::in_this_process();
        runtime.load_standalone(Arc::clone(&artifact), options, &hosts).expect("it loads")
    };
    let mut native = load(SessionOptions::default());
    // Any other option leaves the session to ONNX Runtime; this one changes nothing for trees.
    let mut theirs = load(SessionOptions { weights_as_given: true, ..SessionOptions::default() });
    println!("{:?}", native.facts().native);
    for batch in [1, 2, 4, 8, 16, 64] {
        let inputs = inputs(&native, batch);
        let mut medians = [Vec::new(), Vec::new()];
        for _ in 0..WINDOWS {
            for (model, times) in [&mut theirs, &mut native].into_iter().zip(&mut medians) {
                times.push(window(model, &inputs));
            }
        }
        let [theirs, ours] = medians.map(|mut times| {
            times.sort();
            times[WINDOWS / 2].as_secs_f64() * 1e6 / ROWS as f64
        });
        println!("{batch:3} rows: {theirs:6.2} µs a row, native {ours:6.2} µs, {:4.2} times", theirs / ours);
    }
}

/// All rows in batches, from a small generator.
fn inputs(model: &StandaloneModel, batch: usize) -> Vec<Tensor> {
    let spec = &model.facts().inputs[0];
    let columns = spec.shape[1] as usize;
    let mut seed = 1_u64;
    let mut unit = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f32 / (1_u64 << 24) as f32
    };
    // About normal.
    let mut value = || (0..4).map(|_| unit()).sum::<f32>() * 1.7 - 3.4;
    let tensor = |_| {
        let bytes: Vec<u8> = (0..batch * columns).flat_map(|_| value().to_le_bytes()).collect();
        let (name, shape) = (spec.name.as_str().into(), [batch as i64, columns as i64].as_slice().into());
        Tensor { name, datatype: DataType::Fp32, shape, data: TensorData::Fixed(Bytes::from(bytes)) }
    };
    (0..ROWS / batch).map(tensor).collect()
}

fn window(model: &mut StandaloneModel, inputs: &[Tensor]) -> Duration {
    let began = Instant::now();
    for input in inputs {
        model.run(vec![input.clone()]).expect("it runs");
    }
    began.elapsed()
}
