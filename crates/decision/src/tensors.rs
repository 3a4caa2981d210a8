//! Converts columns to a model's tensors, and outputs to scores.
//!
//! Columns are f64 until here. The last step casts to the tensor's type: to nearest for floats, truncating
//! and saturating for integers, non-zero for BOOL. A missing text becomes the empty one.

use crate::model::{Feed, InputPlan, ModelPlan};
use crate::rows::Rows;
use crate::scores::Scores;
use crate::transform::{Frame, Scratch, TextPool, Transforms};
use bytes::{BufMut, Bytes, BytesMut};
use flyball_core::{DataType, Fault, FaultKind, Shape, Stage, Tensor, TensorData};
use half::{bf16, f16};

/// Rows computed at once: enough to amortise each step, few enough for the cache.
const CHUNK_ROWS: usize = 64;

/// The source of columns.
pub(crate) struct Source<'a> {
    pub(crate) transforms: &'a Transforms,
    pub(crate) rows: &'a Rows,
    pub(crate) scores: &'a Scores,
}

impl Source<'_> {
    /// The inputs of a model for the rows `which`, in that order.
    pub(crate) fn tensors(
        &self,
        model: &ModelPlan,
        which: &[usize],
        scratch: &mut Scratch,
        out: &mut Vec<Tensor>,
    ) {
        out.clear();
        out.extend(model.inputs.iter().map(|input| input.tensor(which.len())));
        // One allocation for each tensor, reused from earlier ones and returned after the run.
        let Scratch { frame, bytes, pieces } = scratch;
        let lengths = model.inputs.iter().map(|input| input.bytes(which.len()));
        bytes.reserve(lengths.clone().sum());
        pieces.extend(lengths.map(|length| {
            let rest = bytes.split_off(length);
            std::mem::replace(bytes, rest)
        }));
        // The columns of a chunk are computed once for all inputs.
        for chunk in which.chunks(CHUNK_ROWS) {
            self.transforms.run(&model.steps, self.rows, chunk, frame);
            for ((input, tensor), piece) in model.inputs.iter().zip(&mut *out).zip(&mut *pieces) {
                self.rows_of(input, chunk, frame, piece, tensor);
            }
        }
        out.iter_mut().zip(pieces.drain(..)).for_each(|(tensor, mut piece)| seal(tensor, &mut piece));
    }

    /// Appends rows whose columns are in the frame.
    fn rows_of(
        &self,
        input: &InputPlan,
        which: &[usize],
        frame: &Frame,
        bytes: &mut BytesMut,
        tensor: &mut Tensor,
    ) {
        match &mut tensor.data {
            TensorData::Strings(texts) => {
                let words = TextPool::new(self.transforms, self.rows, frame);
                for place in 0..which.len() {
                    texts.extend(input.columns.iter().map(|feed| match feed {
                        Feed::Text(column) => Bytes::copy_from_slice(
                            words.text(frame.texts(*column)[place]).unwrap_or_default().as_bytes(),
                        ),
                        Feed::Number(_) | Feed::Score(_) => Bytes::new(),
                    }));
                }
            }
            TensorData::Fixed(_) => {
                for (place, &row) in which.iter().enumerate() {
                    for feed in &input.columns {
                        put(bytes, input.datatype, self.number(*feed, frame, place, row));
                    }
                }
            }
        }
    }

    fn number(&self, feed: Feed, frame: &Frame, place: usize, row: usize) -> f64 {
        match feed {
            Feed::Number(column) => frame.numbers(column)[place],
            Feed::Score(model) => self.scores.get(row, model),
            Feed::Text(_) => f64::NAN,
        }
    }

    /// One row's columns as the model sees them, in tensor types; NaN for texts.
    pub(crate) fn columns(&self, model: &ModelPlan, row: usize, scratch: &mut Scratch, out: &mut Vec<f64>) {
        out.clear();
        self.transforms.run(&model.steps, self.rows, &[row], &mut scratch.frame);
        for input in &model.inputs {
            let feeds = input.columns.iter();
            out.extend(feeds.map(|&feed| seen(input.datatype, self.number(feed, &scratch.frame, 0, row))));
        }
    }
}

/// Tensors of given columns, row after row, for ablation.
pub(crate) fn tensors_of(model: &ModelPlan, columns: &[f64], scratch: &mut Scratch, out: &mut Vec<Tensor>) {
    let width = model.columns.len().max(1);
    let rows = columns.len() / width;
    out.clear();
    let mut first = 0;
    for input in &model.inputs {
        let mut tensor = input.tensor(rows);
        scratch.bytes.reserve(input.bytes(rows));
        for row in columns.chunks_exact(width) {
            row[first..][..input.columns.len()]
                .iter()
                .for_each(|&x| put(&mut scratch.bytes, input.datatype, x));
        }
        seal(&mut tensor, &mut scratch.bytes);
        out.push(tensor);
        first += input.columns.len();
    }
}

/// Moves the written bytes into the tensor.
fn seal(tensor: &mut Tensor, bytes: &mut BytesMut) {
    if let TensorData::Fixed(data) = &mut tensor.data {
        *data = bytes.split().freeze();
    }
}

impl InputPlan {
    fn tensor(&self, rows: usize) -> Tensor {
        let mut shape = Shape::from_slice(&[rows as i64, self.columns.len() as i64]);
        if self.flat {
            shape.truncate(1);
        }
        let data = match self.datatype {
            DataType::Bytes => TensorData::Strings(Vec::with_capacity(rows * self.columns.len())),
            _ => TensorData::Fixed(Bytes::new()),
        };
        Tensor { name: self.name.clone(), datatype: self.datatype, shape, data }
    }

    fn bytes(&self, rows: usize) -> usize {
        rows * self.columns.len() * self.datatype.size().unwrap_or(0)
    }
}

fn put(bytes: &mut BytesMut, datatype: DataType, x: f64) {
    match datatype {
        DataType::Fp32 => bytes.put_f32_le(x as f32),
        DataType::Fp64 => bytes.put_f64_le(x),
        DataType::Fp16 => bytes.put_u16_le(f16::from_f64(x).to_bits()),
        DataType::Bf16 => bytes.put_u16_le(bf16::from_f64(x).to_bits()),
        DataType::Int64 => bytes.put_i64_le(x as i64),
        DataType::Int32 => bytes.put_i32_le(x as i32),
        DataType::Int16 => bytes.put_i16_le(x as i16),
        DataType::Int8 => bytes.put_i8(x as i8),
        DataType::Uint64 => bytes.put_u64_le(x as u64),
        DataType::Uint32 => bytes.put_u32_le(x as u32),
        DataType::Uint16 => bytes.put_u16_le(x as u16),
        DataType::Uint8 => bytes.put_u8(x as u8),
        DataType::Bool => bytes.put_u8(u8::from(x != 0.0)),
        DataType::Bytes => {}
    }
}

/// A number as the tensor's type represents it.
fn seen(datatype: DataType, x: f64) -> f64 {
    match datatype {
        DataType::Fp32 => f64::from(x as f32),
        DataType::Fp16 => f16::from_f64(x).to_f64(),
        DataType::Bf16 => bf16::from_f64(x).to_f64(),
        DataType::Bool => f64::from(u8::from(x != 0.0)),
        DataType::Fp64 | DataType::Bytes => x,
        _ => x.trunc(),
    }
}

/// Passes each row's score to `take`, with its index among the input `rows`.
pub(crate) fn read_scores(
    model: &ModelPlan,
    outputs: &[Tensor],
    rows: usize,
    mut take: impl FnMut(usize, f64),
) -> Result<(), Fault> {
    let fault = |text: String| Fault::new(FaultKind::RunFailed, Stage::Infer, text);
    let Some(output) = outputs.iter().find(|output| *output.name == *model.output) else {
        return Err(fault(format!("model '{}' returned no output '{}'", model.name, model.output)));
    };
    let elements = Tensor::elements(&output.shape).unwrap_or(0);
    let width = elements.checked_div(rows).unwrap_or(0);
    let size = output.datatype.size().unwrap_or(0);
    let TensorData::Fixed(data) = &output.data else {
        return Err(fault(format!("model '{}' returned texts as '{}'", model.name, model.output)));
    };
    if output.rows() != rows || model.element >= width || data.len() != elements * size {
        return Err(fault(format!(
            "model '{}' returned '{}' of shape {:?} for {rows} rows; its score is element {} of a row",
            model.name, model.output, output.shape, model.element
        )));
    }
    for row in 0..rows {
        let at = (row * width + model.element) * size;
        take(row, get(output.datatype, &data[at..at + size]));
    }
    Ok(())
}

/// The first numbers of one row of an output; none for texts or if its shape is not by rows.
pub fn row_numbers(output: &Tensor, rows: usize, row: usize, most: usize) -> impl Iterator<Item = f64> + '_ {
    let size = output.datatype.size().unwrap_or(0);
    let data = match &output.data {
        TensorData::Fixed(data) if size > 0 && rows > 0 && output.rows() == rows => &data[..],
        _ => &[],
    };
    let row_bytes = data.len() / rows.max(1);
    let own = data.get(row * row_bytes..(row + 1) * row_bytes).unwrap_or_default();
    own.chunks_exact(size.max(1)).take(most).map(|bytes| get(output.datatype, bytes))
}

fn get(datatype: DataType, bytes: &[u8]) -> f64 {
    use bytes::Buf;
    let mut bytes = bytes;
    match datatype {
        DataType::Fp32 => bytes.get_f32_le().into(),
        DataType::Fp64 => bytes.get_f64_le(),
        DataType::Fp16 => f16::from_bits(bytes.get_u16_le()).to_f64(),
        DataType::Bf16 => bf16::from_bits(bytes.get_u16_le()).to_f64(),
        DataType::Int64 => bytes.get_i64_le() as f64,
        DataType::Int32 => bytes.get_i32_le().into(),
        DataType::Int16 => bytes.get_i16_le().into(),
        DataType::Int8 => bytes.get_i8().into(),
        DataType::Uint64 => bytes.get_u64_le() as f64,
        DataType::Uint32 => bytes.get_u32_le().into(),
        DataType::Uint16 => bytes.get_u16_le().into(),
        DataType::Uint8 | DataType::Bool => bytes.get_u8().into(),
        DataType::Bytes => f64::NAN,
    }
}
