//! Sample rows with known single-row results, and whether batches reproduce them. See `probe`.

use crate::log;
use crate::runner::{Run, RunError, Runner};
use crate::sample::SampleRows;
use flyball_core::{Tensor, TensorData};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) struct ReferenceRows {
    pub(crate) sample_rows: SampleRows,
    /// The result of each row alone.
    alone: Vec<Vec<Tensor>>,
    /// The fastest run of one row.
    pub(crate) alone_us: f64,
}

/// Lengths of free axes to try until the model runs. Five first: such rows start at every alignment that
/// their elements can have.
const LENGTHS: [i64; 5] = [5, 4, 1, 16, 32];
/// Slow models have fewer rows. Of a sum over five floats about one row in four shows that its position
/// matters.
const COUNT_MIN: usize = 4;
const COUNT_MAX: usize = 16;
const ALONE_TIME_MAX: Duration = Duration::from_millis(25);

/// A model whose run takes longer has a single reference row and no probed batches: a load must not take minutes.
const SLOW_RUN_US: f64 = 1e6;

/// Small batches are tried until each row was at each position, or for this time.
///
/// A single neighbour weighs most there, and a difference should be found before a larger batch is allowed.
const SMALL_ROWS: usize = 4;
const SMALL_ROUNDS_MIN: usize = 3;
const SMALL_TIME_MAX: Duration = Duration::from_millis(5);

impl ReferenceRows {
    /// Runs a few sample rows alone. Fails with the model's error if none of them runs.
    pub(crate) fn find(runner: &mut Runner) -> Result<ReferenceRows, RunError> {
        if !runner.signature.has_free_axes() {
            return ReferenceRows::alone(runner, 1);
        }
        let mut last = RunError::Failed("it was not run".to_owned());
        for length in LENGTHS {
            match ReferenceRows::of_length(runner, length) {
                Ok(witnesses) => return Ok(witnesses),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Rows whose free axes have this length. A model that does not run on them is not an error.
    pub(crate) fn of_length(runner: &mut Runner, length: i64) -> Result<ReferenceRows, RunError> {
        log::without_errors(|| ReferenceRows::alone(runner, length))
    }

    fn alone(runner: &mut Runner, length: i64) -> Result<ReferenceRows, RunError> {
        let signature = Arc::clone(&runner.signature);
        let mut sample_rows = SampleRows::new(length);
        let mut alone = Vec::with_capacity(COUNT_MAX);
        // The first runs pay for cold caches and growing arenas; the fastest is closest to later runs.
        let mut alone_us = f64::INFINITY;
        let began = Instant::now();
        while alone.len() < COUNT_MIN || (alone.len() < COUNT_MAX && began.elapsed() < ALONE_TIME_MAX) {
            let (given, took_us) = run(runner, &[sample_rows.add(&signature)])?;
            alone_us = alone_us.min(took_us);
            alone.push(given);
            if is_slow(alone_us) {
                break;
            }
        }
        Ok(ReferenceRows { sample_rows, alone, alone_us })
    }

    /// Whether each row has its single-row result in batches of `rows`.
    ///
    /// Returns the microseconds of the fastest run, or the difference.
    pub(crate) fn equal_at(&self, runner: &mut Runner, rows: usize) -> Result<f64, String> {
        let (least, most) = if rows <= SMALL_ROWS { (SMALL_ROUNDS_MIN, self.alone.len()) } else { (1, 1) };
        let mut fastest_us = f64::INFINITY;
        let began = Instant::now();
        for round in 0..most {
            if round >= least && began.elapsed() > SMALL_TIME_MAX {
                break;
            }
            // The size rotates them too, so that over all sizes each row gets many positions.
            let turn = rows + round;
            let batch: Vec<&[Tensor]> =
                self.sample_rows.turned(rows, turn).map(|witness| self.sample_rows.row(witness)).collect();
            let (together, took_us) =
                run(runner, &batch).map_err(|error| format!("the model fails: {error}"))?;
            fastest_us = fastest_us.min(took_us);
            for (place, witness) in self.sample_rows.turned(rows, turn).enumerate() {
                for (output, alone) in together.iter().zip(&self.alone[witness]) {
                    row_equals(output, alone, rows, place)?;
                }
            }
        }
        Ok(fastest_us)
    }
}

/// Whether a run of one row takes so long that a load should run it once only.
pub(crate) fn is_slow(alone_us: f64) -> bool {
    alone_us > SLOW_RUN_US
}

/// A run's outputs and CPU time in microseconds.
fn run(runner: &mut Runner, rows: &[&[Tensor]]) -> Result<(Vec<Tensor>, f64), RunError> {
    join(runner, rows);
    let mut outputs = Vec::new();
    let before = crate::thread_cpu_time();
    runner.run(&mut outputs)?;
    Ok((outputs, crate::thread_cpu_time().saturating_sub(before).as_secs_f64() * 1e6))
}

/// Concatenates the rows for the next runs.
pub(crate) fn join(runner: &mut Runner, rows: &[&[Tensor]]) {
    runner.clear();
    rows.iter().for_each(|row| runner.add(row));
}

/// Whether row `place` of a batch's output equals the row's single result.
fn row_equals(output: &Tensor, alone: &Tensor, rows: usize, place: usize) -> Result<(), String> {
    let name = &output.name;
    let on_first_axis =
        output.rows() == rows && alone.rows() == 1 && output.shape.get(1..) == alone.shape.get(1..);
    if !on_first_axis || output.shape.is_empty() {
        return Err(format!(
            "output '{name}' has shape {:?}, but one row alone gives {:?}",
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
    if equal {
        Ok(())
    } else {
        Err(format!("output '{name}' of a row changes with its neighbours or its position"))
    }
}
