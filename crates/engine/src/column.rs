//! The joined rows of one input, in reused memory, and ONNX Runtime's view of them.

use crate::strings;
use bytemuck::{AnyBitPattern, NoUninit};
use flyball_core::{DataType, Shape, Tensor, TensorData};
use half::{bf16, f16};
use ort::session::SessionInputValue;
use ort::value::{PrimitiveTensorElementType, TensorRef};
use std::fmt::Debug;

/// Maximum memory kept for the next batch; the rest of a larger one is freed.
const KEPT_WORDS_MAX: usize = (4 << 20) / size_of::<u64>();
const KEPT_STRINGS_MAX: usize = 4096;

/// `u64` words keep every element type aligned; `length_bytes` is the used part.
#[derive(Default)]
pub(crate) struct Column {
    shape: Shape,
    words: Vec<u64>,
    length_bytes: usize,
    strings: Vec<String>,
}

impl Column {
    pub(crate) fn clear(&mut self) {
        self.shape.clear();
        self.length_bytes = 0;
        self.strings.clear();
        if self.words.len() > KEPT_WORDS_MAX {
            self.words = Vec::new();
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
                if self.words.len() < end.div_ceil(8) {
                    self.words.resize(end.div_ceil(8), 0);
                }
                bytemuck::cast_slice_mut(&mut self.words)[self.length_bytes..end].copy_from_slice(bytes);
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

    fn view<T: PrimitiveTensorElementType + AnyBitPattern + NoUninit + Debug>(
        &self,
    ) -> ort::Result<SessionInputValue<'_>> {
        Ok(TensorRef::from_array_view((self.shape.as_slice(), self.elements::<T>()))?.into())
    }

    fn elements<T: AnyBitPattern>(&self) -> &[T] {
        &bytemuck::cast_slice(&self.words)[..self.length_bytes / size_of::<T>()]
    }
}
