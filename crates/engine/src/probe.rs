//! Batching must not change results: probes which batch sizes are safe.
//!
//! Before requests may share runs of a model, the same rows are run alone and in batches: at other positions,
//! with other neighbours, at every size. Outputs must be equal bit for bit.
//!
//! A dynamically quantised model scales over its batch and fails this; a model whose kernels switch at some
//! size passes up to there. A sum over five floats fails it too: ONNX Runtime adds up to the next multiple of
//! 16 bytes one by one and from there in fours, so that the last bit depends on the address at which a row
//! begins, hence on its position (1.31; rows that are multiples of 16 bytes long do not show it).
//!
//! Guaranteed: no batch is larger than the largest at which no sample row changed. If axes other than the
//! first are free, requests share a run only when these are equal, and a few lengths represent all: all free
//! axes have the same length, and the first length that the model runs on is probed at every size, the others
//! at some sizes and while there is time. Not guaranteed: that no other length and no other value would have
//! shown a difference. They cannot all be tried; set `batch_rows_max` to 1 to be sure.

use crate::latency::LatencyPoint;
use crate::reference_rows::{ReferenceRows, is_slow};
use crate::runner::Runner;
use serde::Deserialize;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::time::{Duration, Instant};

/// The result of probing: how many rows may share a run, and why not more.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Batching {
    /// 1 means that requests run one at a time.
    pub rows_max: usize,
    pub reason: Option<String>,
}

impl Batching {
    pub(crate) fn off(reason: impl Into<String>) -> Batching {
        Batching { rows_max: 1, reason: Some(reason.into()) }
    }

    pub fn on(&self) -> bool {
        self.rows_max > 1
    }
}

impl Serialize for Batching {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Batching", 3)?;
        fields.serialize_field("on", &self.on())?;
        fields.serialize_field("rows_max", &self.rows_max)?;
        fields.serialize_field("reason", &self.reason)?;
        fields.end()
    }
}

/// Loading waits for the probe, so it is bounded; sizes that were not reached are not used.
const PROBE_TIME_MAX: Duration = Duration::from_millis(250);
/// Further lengths of free axes: shorter and longer than a vector register, and not all multiples of one.
const LENGTHS: [i64; 8] = [3, 17, 1, 2, 5, 4, 8, 64];
/// For all those lengths together.
const LENGTHS_TIME_MAX: Duration = Duration::from_millis(250);
/// Maximum elements at these lengths, unless the largest batch at the first length had more: time and memory
/// stay bounded.
const LENGTHS_ELEMENTS: usize = 512;

const OUT_OF_TIME: &str = "larger batches were not probed within";

/// Whether a reason concerns this load, not the model.
pub(crate) fn ran_out_of_time(reason: &str) -> bool {
    reason.starts_with(OUT_OF_TIME)
}

/// How many rows may share a run, and how long the probe's runs took.
pub(crate) fn probe(
    witnesses: &ReferenceRows,
    runner: &mut Runner,
    rows_max: usize,
) -> (Batching, Vec<LatencyPoint>) {
    let mut points = vec![point(1, witnesses.alone_us)];
    if rows_max <= 1 {
        return (Batching::off("batch_rows_max is 1"), points);
    }
    if let Some(reason) = runner.signature.no_batch_axis() {
        return (Batching::off(reason), points);
    }
    if is_slow(witnesses.alone_us) {
        let reason = format!("one run takes {:.1} s, too long to probe batches", witnesses.alone_us / 1e6);
        return (Batching::off(reason), points);
    }
    let mut batching = every_size(witnesses, runner, rows_max, &mut points);
    if runner.signature.has_free_axes() {
        batching = other_lengths(witnesses, runner, batching);
    }
    points.retain(|point| point.rows <= batching.rows_max);
    (batching, points)
}

fn every_size(
    witnesses: &ReferenceRows,
    runner: &mut Runner,
    rows_max: usize,
    points: &mut Vec<LatencyPoint>,
) -> Batching {
    let began = Instant::now();
    for rows in 2..=rows_max {
        if began.elapsed() > PROBE_TIME_MAX {
            let reason = format!("{OUT_OF_TIME} {} ms", PROBE_TIME_MAX.as_millis());
            return Batching { rows_max: rows - 1, reason: Some(reason) };
        }
        match witnesses.equal_at(runner, rows) {
            Ok(took_us) if rows.is_power_of_two() => points.push(point(rows, took_us)),
            Ok(_) => {}
            Err(found) => {
                let reason = Some(reason(runner, witnesses, rows, &found));
                return Batching { rows_max: rows - 1, reason };
            }
        }
    }
    Batching { rows_max, reason: None }
}

/// Lowers the batch size to what other lengths of the free axes confirm.
fn other_lengths(first: &ReferenceRows, runner: &mut Runner, mut batching: Batching) -> Batching {
    let began = Instant::now();
    let elements_max = (batching.rows_max * first.sample_rows.elements()).max(LENGTHS_ELEMENTS);
    for length in LENGTHS.into_iter().filter(|&length| length != first.sample_rows.length) {
        if !batching.on() || began.elapsed() > LENGTHS_TIME_MAX {
            break;
        }
        // Some models do not run at every length. Then no result could change.
        let Ok(witnesses) = ReferenceRows::of_length(runner, length) else { continue };
        let mut equal = 1;
        for rows in some_sizes(batching.rows_max) {
            if began.elapsed() > LENGTHS_TIME_MAX || rows * witnesses.sample_rows.elements() > elements_max {
                break;
            }
            match witnesses.equal_at(runner, rows) {
                Ok(_) => equal = rows,
                Err(found) => {
                    let reason = Some(reason(runner, &witnesses, rows, &found));
                    batching = Batching { rows_max: equal, reason };
                    break;
                }
            }
        }
    }
    batching
}

/// 2, 3, 4, then doubling, and the largest.
fn some_sizes(rows_max: usize) -> impl Iterator<Item = usize> {
    let doubling = std::iter::successors(Some(4), |rows| Some(rows * 2));
    [2, 3].into_iter().chain(doubling).take_while(move |&rows| rows < rows_max).chain([rows_max])
}

fn reason(runner: &Runner, witnesses: &ReferenceRows, rows: usize, found: &str) -> String {
    if runner.signature.has_free_axes() {
        format!("with {rows} rows in a run and free axes of {}, {found}", witnesses.sample_rows.length)
    } else {
        format!("with {rows} rows in a run, {found}")
    }
}

fn point(rows: usize, us: f64) -> LatencyPoint {
    LatencyPoint { rows, p50_us: us, p99_us: us }
}

#[cfg(test)]
mod tests;
