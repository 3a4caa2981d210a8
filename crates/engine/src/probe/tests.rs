//! Probing real models, made in `runner/tests/onnx.rs`.

use super::{Batching, probe, some_sizes};
use crate::reference_rows::ReferenceRows;
use crate::runner::tests::{onnx, runner};

fn probed(model: Vec<u8>, rows_max: usize) -> (i64, Batching) {
    let mut runner = runner(model);
    let witnesses = ReferenceRows::find(&mut runner).unwrap();
    let (batching, points) = probe(&witnesses, &mut runner, rows_max);
    assert!(points.iter().all(|point| point.rows <= batching.rows_max), "{points:?}");
    (witnesses.sample_rows.length, batching)
}

#[test]
fn sums_over_rows_of_any_width_are_not_batched() {
    let (_, batching) = probed(onnx::row_sum(-1), 64);
    assert_eq!(batching.rows_max, 1, "{batching:?}");
    let reason = batching.reason.unwrap();
    assert_eq!(
        reason,
        "with 2 rows in a run and free axes of 5, output 'y' of a row changes with its neighbours or its position"
    );
}

#[test]
fn a_difference_at_another_length_than_the_first_is_found_too() {
    let mut runner = runner(onnx::row_sum(-1));
    // Rows of four floats all start at multiples of 16 bytes, and hide it.
    let witnesses = ReferenceRows::of_length(&mut runner, 4).unwrap();
    let (batching, _) = probe(&witnesses, &mut runner, 64);
    assert_eq!(batching.rows_max, 1, "{batching:?}");
    assert!(batching.reason.unwrap().starts_with("with 2 rows in a run and free axes of 17, "));
}

#[test]
fn sums_over_rows_of_one_width_are_batched_where_every_row_is_aligned() {
    for width in [1, 2, 3, 4, 8, 12, 64] {
        assert_eq!(probed(onnx::row_sum(width), 64).1, Batching { rows_max: 64, reason: None }, "{width}");
    }
    for width in [5, 6, 7, 9, 17, 30] {
        let (_, batching) = probed(onnx::row_sum(width), 64);
        assert_eq!(batching.rows_max, 1, "{width}: {batching:?}");
    }
}

#[test]
fn rows_of_any_width_are_batched_where_no_width_shows_a_difference() {
    assert_eq!(probed(onnx::negated(), 64), (5, Batching { rows_max: 64, reason: None }));
}

#[test]
fn lengths_on_which_a_model_does_not_run_do_not_forbid_batches() {
    assert_eq!(probed(onnx::of_hidden_width(), 8), (4, Batching { rows_max: 8, reason: None }));
}

#[test]
fn the_sizes_tried_at_other_lengths_end_at_the_largest() {
    assert_eq!(some_sizes(2).collect::<Vec<_>>(), [2]);
    assert_eq!(some_sizes(4).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(some_sizes(40).collect::<Vec<_>>(), [2, 3, 4, 8, 16, 32, 40]);
}
