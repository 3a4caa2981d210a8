//! The joined rows of one input, in reused memory, and ONNX Runtime's view of them.

use crate::strings;
use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};
use bytes::Bytes;
use flyball_core::{DataType, Shape, Tensor, TensorData};
use half::{bf16, f16};
use ort::session::SessionInputValue;
use ort::value::{PrimitiveTensorElementType, TensorRef};
use std::fmt::Debug;

/// Maximum memory kept for the next batch; the rest of a larger one is freed.
const KEPT_LINES_MAX: usize = (4 << 20) / size_of::<Line>();
const KEPT_STRINGS_MAX: usize = 4096;

/// A cache line, aligned as ONNX Runtime's own tensors are. Some kernels add numbers in an order that depends on where a tensor
/// starts: at another place the same row could give other bits.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// `length_bytes` is the used part of `lines`.
#[derive(Default)]
pub(crate) struct Column {
    shape: Shape,
    lines: Vec<Line>,
    length_bytes: usize,
    strings: Vec<Bytes>,
}

impl Column {
    pub(crate) fn clear(&mut self) {
        self.shape.clear();
        self.length_bytes = 0;
        self.strings.clear();
        if self.lines.len() > KEPT_LINES_MAX {
            self.lines = Vec::new();
        }
        if self.strings.capacity() > KEPT_STRINGS_MAX {
            self.strings = Vec::new();
        }
    }

    /// Appends a request's rows. Shapes differ at most in the first axis.
    pub(crate) fn add(&mut self, part: &Tensor) {
        match self.shape.first_mut() {
            None => self.shape.extend_from_slice(&part.shape),
            Some(rows) => *rows += part.shape.first().copied().unwrap_or(0),
        }
        match &part.data {
            TensorData::Fixed(bytes) => {
                let end = self.length_bytes + bytes.len();
                let lines = end.div_ceil(size_of::<Line>());
                if self.lines.len() < lines {
                    self.lines.resize(lines, Line::zeroed());
                }
                bytemuck::cast_slice_mut(&mut self.lines)[self.length_bytes..end].copy_from_slice(bytes);
                self.length_bytes = end;
            }
            TensorData::Strings(strings) => self.strings.extend(strings.iter().cloned()),
        }
    }

    pub(crate) fn value(&self, datatype: DataType) -> ort::Result<SessionInputValue<'_>> {
        match datatype {
            DataType::Bool => {
                let flags = bytemuck::checked::try_cast_slice::<u8, bool>(self.elements());
                let flags = flags.map_err(|_| ort::Error::new("a BOOL byte is neither 0 nor 1"))?;
                Ok(TensorRef::from_array_view((self.shape.as_slice(), flags))?.into())
            }
            DataType::Bytes => Ok(strings::tensor(&self.shape, &self.strings)?.into()),
            DataType::Uint8 => self.view::<u8>(),
            DataType::Uint16 => self.view::<u16>(),
            DataType::Uint32 => self.view::<u32>(),
            DataType::Uint64 => self.view::<u64>(),
            DataType::Int8 => self.view::<i8>(),
            DataType::Int16 => self.view::<i16>(),
            DataType::Int32 => self.view::<i32>(),
            DataType::Int64 => self.view::<i64>(),
            DataType::Fp16 => self.view::<f16>(),
            DataType::Bf16 => self.view::<bf16>(),
            DataType::Fp32 => self.view::<f32>(),
            DataType::Fp64 => self.view::<f64>(),
        }
    }

    /// The rows of an FP32 column, with their shape.
    pub(crate) fn floats(&self) -> (&[i64], &[f32]) {
        (self.shape.as_slice(), self.elements())
    }

    pub(crate) fn has_rows(&self) -> bool {
        self.length_bytes > 0
    }

    fn view<T: PrimitiveTensorElementType + AnyBitPattern + NoUninit + Debug>(
        &self,
    ) -> ort::Result<SessionInputValue<'_>> {
        Ok(TensorRef::from_array_view((self.shape.as_slice(), self.elements::<T>()))?.into())
    }

    fn elements<T: AnyBitPattern>(&self) -> &[T] {
        &bytemuck::cast_slice(&self.lines)[..self.length_bytes / size_of::<T>()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_start_at_a_cache_line_whatever_their_size() {
        let columns: Vec<Column> = (1..200)
            .map(|size| {
                let data = TensorData::Fixed(vec![7; size].into());
                let part = Tensor {
                    name: "x".into(),
                    datatype: DataType::Uint8,
                    shape: Shape::from_slice(&[1, size as i64]),
                    data,
                };
                let mut column = Column::default();
                column.add(&part);
                column
            })
            .collect();
        for (size, column) in (1..).zip(&columns) {
            assert_eq!(column.elements::<u8>(), vec![7; size]);
            assert_eq!(column.elements::<u8>().as_ptr().addr() % 64, 0);
        }
    }
}
