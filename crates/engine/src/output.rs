//! The outputs of a run.
//!
//! Small ones are copied into one buffer that is reused once its responses are gone; large ones stay in ONNX
//! Runtime's memory.

use crate::strings;
use bytemuck::NoUninit;
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use flyball_core::{DataType, Shape, Tensor, TensorData, TensorSpec};
use half::{bf16, f16};
use ort::session::SessionOutputs;
use ort::value::{DynValue, PrimitiveTensorElementType};
use std::marker::PhantomData;

pub(crate) struct OutputBuffer {
    specs: Vec<(ByteString, DataType)>,
    bytes: BytesMut,
    /// The largest copied outputs of a run so far.
    run_bytes: usize,
}

/// The buffer holds several runs, because responses of the last one may still be in flight when the next
/// ends: this many, fewer of large ones.
const RUNS: usize = 64;
pub(crate) const RUNS_BYTES_MAX: usize = 16 << 10;
/// Outputs of this size are not copied.
const HELD_BYTES_MIN: usize = 1 << 20;

impl OutputBuffer {
    pub(crate) fn new(specs: &[TensorSpec]) -> OutputBuffer {
        let specs = specs.iter().map(|spec| (ByteString::from(spec.name.as_str()), spec.datatype)).collect();
        OutputBuffer { specs, bytes: BytesMut::new(), run_bytes: 0 }
    }

    /// Appends a run's outputs.
    pub(crate) fn read(&mut self, given: SessionOutputs<'_>, outputs: &mut Vec<Tensor>) -> ort::Result<()> {
        self.reserve();
        let mut run_bytes = 0;
        for ((name, datatype), (_, value)) in self.specs.iter().zip(given) {
            let (shape, data) = data(*datatype, value, &mut self.bytes)?;
            if let TensorData::Fixed(bytes) = &data
                && bytes.len() < HELD_BYTES_MIN
            {
                run_bytes += bytes.len();
            }
            outputs.push(Tensor { name: name.clone(), datatype: *datatype, shape, data });
        }
        self.run_bytes = self.run_bytes.max(run_bytes);
        Ok(())
    }

    /// Appends outputs that were computed here, in model order.
    pub(crate) fn write<'w>(
        &mut self,
        written: impl Iterator<Item = (Shape, Written<'w>)>,
        outputs: &mut Vec<Tensor>,
    ) {
        self.reserve();
        let mut run_bytes = 0;
        for ((name, datatype), (shape, written)) in self.specs.iter().zip(written) {
            let data = match written {
                Written::Fixed(bytes) => {
                    run_bytes += bytes.len();
                    self.bytes.extend_from_slice(bytes);
                    TensorData::Fixed(self.bytes.split().freeze())
                }
                Written::Strings(strings) => TensorData::Strings(strings),
            };
            outputs.push(Tensor { name: name.clone(), datatype: *datatype, shape, data });
        }
        if run_bytes < HELD_BYTES_MIN {
            self.run_bytes = self.run_bytes.max(run_bytes);
        }
    }

    fn reserve(&mut self) {
        if self.bytes.capacity() < self.run_bytes {
            // Reclaims the whole buffer if no response uses a part of it, else allocates a new one.
            let several = self.run_bytes.saturating_mul(RUNS).min(RUNS_BYTES_MAX);
            self.bytes.reserve(several.max(self.run_bytes));
        }
    }
}

/// An output's elements.
pub(crate) enum Written<'w> {
    Fixed(&'w [u8]),
    Strings(Vec<Bytes>),
}

fn data(datatype: DataType, value: DynValue, buffer: &mut BytesMut) -> ort::Result<(Shape, TensorData)> {
    let (shape, bytes) = match datatype {
        DataType::Bool => fixed::<bool>(value, buffer)?,
        DataType::Uint8 => fixed::<u8>(value, buffer)?,
        DataType::Uint16 => fixed::<u16>(value, buffer)?,
        DataType::Uint32 => fixed::<u32>(value, buffer)?,
        DataType::Uint64 => fixed::<u64>(value, buffer)?,
        DataType::Int8 => fixed::<i8>(value, buffer)?,
        DataType::Int16 => fixed::<i16>(value, buffer)?,
        DataType::Int32 => fixed::<i32>(value, buffer)?,
        DataType::Int64 => fixed::<i64>(value, buffer)?,
        DataType::Fp16 => fixed::<f16>(value, buffer)?,
        DataType::Bf16 => fixed::<bf16>(value, buffer)?,
        DataType::Fp32 => fixed::<f32>(value, buffer)?,
        DataType::Fp64 => fixed::<f64>(value, buffer)?,
        DataType::Bytes => {
            let (shape, strings) = strings::read(&value)?;
            return Ok((shape, TensorData::Strings(strings)));
        }
    };
    Ok((shape, TensorData::Fixed(bytes)))
}

fn fixed<T: PrimitiveTensorElementType + NoUninit>(
    value: DynValue,
    buffer: &mut BytesMut,
) -> ort::Result<(Shape, Bytes)> {
    let (shape, elements) = value.try_extract_tensor::<T>()?;
    let shape = shape.iter().copied().collect();
    if size_of_val(elements) >= HELD_BYTES_MIN {
        return Ok((shape, Bytes::from_owner(Held::<T> { value, elements: PhantomData })));
    }
    buffer.extend_from_slice(bytemuck::cast_slice(elements));
    Ok((shape, buffer.split().freeze()))
}

/// A large output in ONNX Runtime's memory, freed with the last response that uses it.
struct Held<T> {
    value: DynValue,
    elements: PhantomData<fn() -> T>,
}

impl<T: PrimitiveTensorElementType + NoUninit> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        let (_, elements) = self.value.try_extract_tensor::<T>().expect("it was read as such before");
        bytemuck::cast_slice(elements)
    }
}
