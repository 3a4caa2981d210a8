//! A native run's allocations, counted by the test's allocator: none once its buffers have grown.

use bytes::Bytes;
use flyball_core::{DataType, Tensor, TensorData};
use flyball_engine::{Artifact, LoadOptions, MemoryBudget, ModelHosts, Run, Runtime, beside_executable};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches none of its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller upholds the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

const RUNS: usize = 10_000;

/// One test, because its binary has one allocator.
#[test]
fn a_native_run_allocates_nothing_in_steady_state() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/trees/lightgbm_two.onnx");
    let artifact = Arc::new(Artifact::read_unverified(&model).unwrap());
    let options = LoadOptions { rows_max: 16, runners: 1, memory: MemoryBudget::UNLIMITED };
    let runtime = Runtime::open(&beside_executable().unwrap()).unwrap();
    let mut loaded = runtime.load(artifact, options, &ModelHosts::in_this_process(), &|| false).unwrap();
    assert!(loaded.surveyor.prove_trees(&|| false).is_some_and(|native| native.on));
    let runner = &mut loaded.runners[0];
    let bytes = TensorData::Fixed(Bytes::from_static(&[0; 6 * 4]));
    let row =
        [Tensor { name: "x".into(), datatype: DataType::Fp32, shape: [1, 6].as_slice().into(), data: bytes }];
    let mut outputs = Vec::new();
    for rows in [1, 16] {
        let mut before = 0;
        for run in 0..2 * RUNS {
            if run == RUNS {
                before = ALLOCATIONS.get();
            }
            runner.clear();
            (0..rows).for_each(|_| runner.add(&row));
            runner.run(&mut outputs).unwrap();
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{rows} rows");
    }
}
