//! Compares the native trees with ONNX Runtime, row by row and bit by bit, before they answer for it.
//!
//! Off the request path: a server proves in the background while ONNX Runtime answers. Guaranteed: the bits of 10,000 rows, alone
//! and in batches, at thresholds and one float beside them, with NaN, infinities and subnormals. Both engines add
//! the trees of a row in their order, so batches cannot matter; they are compared all the same.

use super::{NativeTrees, TreeRunner};
use crate::runner::{Run, Runner};
use crate::thread_cpu_time;
use bytes::Bytes;
use flyball_core::{DataType, Tensor, TensorData};
use flyball_trees::{ProbeRows, Unsupported};
use std::time::Duration;

/// How many rows a proof compares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProofRuns {
    pub(crate) rows: usize,
    /// Of these, run alone.
    pub(crate) alone: usize,
    /// The largest batch of a server.
    pub(crate) rows_max: usize,
}

impl ProofRuns {
    pub(crate) fn of(rows_max: usize) -> ProofRuns {
        ProofRuns { rows: 10_000, alone: 2_000, rows_max }
    }
}

/// Every size up to here is compared many times, larger ones once.
const BATCH_MAX: usize = 16;
/// Of CPU time. 1,000 trees of 255 leaves take a second.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Lets a runner answer by its native trees if they are proven.
pub(crate) fn prove(
    runner: &mut Runner,
    trees: Result<TreeRunner, Unsupported>,
    runs: ProofRuns,
    version: &str,
    stop: &dyn Fn() -> bool,
) -> NativeTrees {
    let off = |finding: String| NativeTrees { on: false, finding };
    let mut trees = match trees {
        Ok(trees) => trees,
        Err(unsupported) => return off(format!("native trees do not support it: {unsupported}")),
    };
    match compare(runner, &mut trees, runs, stop) {
        Ok(rows) => {
            runner.answer_by(trees);
            let rows = thousands(rows);
            let finding = format!("native trees: {rows} rows bit-equal to ONNX Runtime {version}");
            NativeTrees { on: true, finding }
        }
        Err(difference) => off(format!("native trees are off: {difference}")),
    }
}

/// The number of equal rows, or the first difference.
pub(super) fn compare(
    runner: &mut Runner,
    trees: &mut TreeRunner,
    runs: ProofRuns,
    stop: &dyn Fn() -> bool,
) -> Result<usize, String> {
    let spec = &runner.signature.inputs[0];
    let (first, columns) = (spec.shape[0], spec.shape[1] as usize);
    let name = bytestring::ByteString::from(spec.name.as_str());
    let mut rows = trees.ensemble().probe_rows(columns);
    let began = thread_cpu_time();
    let (mut done, mut values) = (0, Vec::new());
    for size in sizes(runs, first) {
        if done >= runs.rows {
            break;
        }
        if stop() {
            return Err("the model was removed".to_owned());
        }
        if thread_cpu_time().saturating_sub(began) > TIME_MAX {
            let seconds = TIME_MAX.as_secs();
            return Err(format!("{} rows were compared within {seconds} s, too few", thousands(done)));
        }
        // The last one ends at the number of rows, unless the model takes no other.
        let size = if first < 0 { size.min(runs.rows - done) } else { size };
        let input = input(&name, &mut rows, size, columns, &mut values);
        runner.clear();
        runner.add(std::slice::from_ref(&input));
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        runner
            .run(&mut theirs)
            .map_err(|error| format!("ONNX Runtime does not run on probe rows: {error}"))?;
        runner.run_trees(trees, &mut ours).map_err(|error| error.to_string())?;
        if theirs != ours {
            return Err(difference(&theirs, &ours, &values, columns, done));
        }
        done += size;
    }
    Ok(done)
}

/// The rows of each run. A model with a fixed first axis takes that many.
fn sizes(runs: ProofRuns, first: i64) -> Box<dyn Iterator<Item = usize>> {
    if let Ok(fixed) = usize::try_from(first) {
        return Box::new(std::iter::repeat(fixed.max(1)));
    }
    let largest = (runs.rows_max > BATCH_MAX).then_some(runs.rows_max);
    let alone = std::iter::repeat_n(1, runs.alone);
    Box::new(alone.chain(largest).chain((2..=BATCH_MAX).cycle()))
}

fn input(
    name: &bytestring::ByteString,
    rows: &mut ProbeRows,
    size: usize,
    columns: usize,
    values: &mut Vec<f32>,
) -> Tensor {
    values.clear();
    rows.extend(size, values);
    let data = TensorData::Fixed(Bytes::copy_from_slice(bytemuck::cast_slice(values)));
    let shape = [size as i64, columns as i64].as_slice().into();
    Tensor { name: name.clone(), datatype: DataType::Fp32, shape, data }
}

/// Names the first row with other bits, with its values as they are written in JSON.
fn difference(theirs: &[Tensor], ours: &[Tensor], values: &[f32], columns: usize, before: usize) -> String {
    for (theirs, ours) in theirs.iter().zip(ours) {
        let name = &theirs.name;
        let (TensorData::Fixed(wanted), TensorData::Fixed(found)) = (&theirs.data, &ours.data) else {
            if theirs != ours {
                return format!("output '{name}' differs after {} equal rows", thousands(before));
            }
            continue;
        };
        let rows = values.len() / columns;
        let size = wanted.len() / rows;
        if theirs.shape != ours.shape || wanted.len() != found.len() || size == 0 {
            let (wanted, found) = (theirs.shape.as_slice(), ours.shape.as_slice());
            return format!("output '{name}' has the shape {found:?}, in ONNX Runtime {wanted:?}");
        }
        let rows = wanted.chunks(size).zip(found.chunks(size)).zip(values.chunks(columns));
        if let Some((row, ((wanted, found), values))) =
            rows.enumerate().find(|(_, ((wanted, found), _))| wanted != found)
        {
            let (wanted, found) = (numbers(wanted, theirs.datatype), numbers(found, theirs.datatype));
            let row = thousands(before + row + 1);
            let shown = &values[..columns.min(COLUMNS_SHOWN)];
            return format!("row {row}: output '{name}' is {found}, in ONNX Runtime {wanted}, for {shown:?}");
        }
    }
    "the outputs differ in number".to_owned()
}

const COLUMNS_SHOWN: usize = 32;

fn numbers(bytes: &[u8], datatype: DataType) -> String {
    match datatype {
        DataType::Fp32 => format!("{:?}", elements::<f32>(bytes)),
        _ => format!("{:?}", elements::<i64>(bytes)),
    }
}

fn elements<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

fn thousands(number: usize) -> String {
    if number < 1000 { number.to_string() } else { format!("{},{:03}", number / 1000, number % 1000) }
}
