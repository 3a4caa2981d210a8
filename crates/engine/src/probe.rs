//! Batching must not change answers. Before a model may share runs between requests, the same rows are run alone
//! and in batches: at other places, with other neighbours, at every size. Outputs must be equal bit for bit.
//!
//! A dynamically quantised model scales over its batch and fails this; a model whose kernels switch at some size
//! passes up to there.

use crate::Signature;
use crate::latency::{LatencyPoint, thread_cpu_time};
use crate::runner::{RunError, Runner};
use crate::sample::{self, Seeded};
use flyball_core::{Tensor, TensorData};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::time::{Duration, Instant};

/// What probing found: how many rows may share a run, and why not more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batching {
    /// 1 means that requests are run one at a time.
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

/// Loading waits for the probe, so it is bounded; sizes that it did not get to are not used.
const PROBE_TIME_MAX: Duration = Duration::from_millis(250);
/// Free axes other than the first: lengths to try until the model runs.
const FREE_AXES: [i64; 4] = [4, 1, 16, 32];
const WITNESSES: usize = 4;

/// Rows whose answers alone are known.
pub(crate) struct Witnesses {
    rows: Vec<(Vec<Tensor>, Vec<Tensor>)>,
    free_axis: i64,
    alone_us: f64,
}

impl Witnesses {
    /// Runs a few made-up rows alone. Fails with the model's own words if it runs on none of them.
    pub(crate) fn find(runner: &mut Runner) -> Result<Witnesses, RunError> {
        let mut last = RunError::Failed("it was not run".to_owned());
        for free_axis in FREE_AXES {
            match Witnesses::with_free_axis(runner, free_axis) {
                Ok(witnesses) => return Ok(witnesses),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn with_free_axis(runner: &mut Runner, free_axis: i64) -> Result<Witnesses, RunError> {
        let signature = runner.signature().clone();
        let mut seeded = Seeded::new(1);
        let mut rows = Vec::with_capacity(WITNESSES);
        // The first runs pay for cold caches and growing arenas; the fastest is nearest to what comes later.
        let mut alone_us = f64::INFINITY;
        for _ in 0..WITNESSES {
            let row = sample::row(&signature, &mut seeded, 1.0, free_axis);
            let (alone, took_us) = run(runner, &[&row])?;
            alone_us = alone_us.min(took_us);
            rows.push((row, alone));
        }
        Ok(Witnesses { rows, free_axis, alone_us })
    }

    /// Elements of one row over all inputs, where axes other than the first are free: longer rows take longer.
    pub(crate) fn row_elements(&self, signature: &Signature) -> Option<usize> {
        let free = signature.inputs.iter().any(|spec| spec.shape.iter().skip(1).any(|&axis| axis == -1));
        let (row, _) = self.rows.first()?;
        free.then(|| row.iter().filter_map(|tensor| Tensor::elements(&tensor.shape)).sum::<usize>().max(1))
    }

    /// Inputs for a run of `rows` rows, for timing.
    pub(crate) fn batch(&self, rows: usize) -> Vec<&[Tensor]> {
        self.rows.iter().cycle().take(rows).map(|(row, _)| row.as_slice()).collect()
    }

    /// How many rows may share a run, and how long the runs took that found it out.
    pub(crate) fn probe(&self, runner: &mut Runner, rows_max: usize) -> (Batching, Vec<LatencyPoint>) {
        let mut points = vec![point(1, self.alone_us)];
        if rows_max <= 1 {
            return (Batching::off("batch_rows_max is 1"), points);
        }
        if let Some(reason) = runner.signature().no_batch_axis() {
            return (Batching::off(reason), points);
        }
        let began = Instant::now();
        for rows in 2..=rows_max {
            let within = |reason: String| Batching { rows_max: rows - 1, reason: Some(reason) };
            if began.elapsed() > PROBE_TIME_MAX {
                let reason =
                    format!("larger batches were not probed within {} ms", PROBE_TIME_MAX.as_millis());
                return (within(reason), points);
            }
            match self.equal_at(runner, rows) {
                Ok(took_us) if rows.is_power_of_two() => points.push(point(rows, took_us)),
                Ok(_) => {}
                Err(reason) => return (within(format!("with {rows} rows in a run, {reason}")), points),
            }
        }
        (Batching { rows_max, reason: None }, points)
    }

    /// Small batches are tried with several sets of neighbours: there a single neighbour weighs most.
    fn equal_at(&self, runner: &mut Runner, rows: usize) -> Result<f64, String> {
        let rounds = if rows <= 4 { 3 } else { 1 };
        let mut fastest_us = f64::INFINITY;
        for round in 0..rounds {
            let mut seeded = Seeded::new((rows * 31 + round) as u64);
            let signature = runner.signature().clone();
            let spread = [100.0, 0.01, 7.0][round];
            let mut neighbours: Vec<Vec<Tensor>> =
                (0..rows).map(|_| sample::row(&signature, &mut seeded, spread, self.free_axis)).collect();
            let (witness, alone) = &self.rows[(rows + round) % self.rows.len()];
            let place = (rows * 7 + round * 3) % rows;
            neighbours[place].clone_from(witness);
            let batch: Vec<&[Tensor]> = neighbours.iter().map(Vec::as_slice).collect();
            let (together, took_us) =
                run(runner, &batch).map_err(|error| format!("the model fails: {error}"))?;
            fastest_us = fastest_us.min(took_us);
            for (output, wanted) in together.iter().zip(alone) {
                row_equals(output, wanted, rows, place)?;
            }
        }
        Ok(fastest_us)
    }
}

fn point(rows: usize, us: f64) -> LatencyPoint {
    LatencyPoint { rows, p50_us: us, p99_us: us }
}

/// What a run gives, and the microseconds of CPU time that it took.
fn run(runner: &mut Runner, rows: &[&[Tensor]]) -> Result<(Vec<Tensor>, f64), RunError> {
    join(runner, rows);
    let mut outputs = Vec::new();
    let before = thread_cpu_time();
    runner.run(&mut outputs)?;
    Ok((outputs, thread_cpu_time().saturating_sub(before).as_secs_f64() * 1e6))
}

/// Lays the rows behind each other for the next runs.
pub(crate) fn join(runner: &mut Runner, rows: &[&[Tensor]]) {
    runner.clear();
    rows.iter().for_each(|row| runner.add(row));
}

/// Whether row `place` of a batch's output is what the row gave alone.
fn row_equals(output: &Tensor, alone: &Tensor, rows: usize, place: usize) -> Result<(), String> {
    let name = &output.name;
    let on_first_axis =
        output.rows() == rows && alone.rows() == 1 && output.shape.get(1..) == alone.shape.get(1..);
    if !on_first_axis || output.shape.is_empty() {
        return Err(format!(
            "output '{name}' has shape {:?} where one row alone gives {:?}",
            output.shape.as_slice(),
            alone.shape.as_slice()
        ));
    }
    let equal = match (&output.data, &alone.data) {
        (TensorData::Fixed(all), TensorData::Fixed(one)) => {
            all.get(place * one.len()..(place + 1) * one.len()) == Some(one.as_ref())
        }
        (TensorData::Strings(all), TensorData::Strings(one)) => {
            all.get(place * one.len()..(place + 1) * one.len()) == Some(one.as_slice())
        }
        _ => false,
    };
    if equal { Ok(()) } else { Err(format!("output '{name}' of a row changes with its neighbours")) }
}
