//! String tensors as bytes: the `ort` crate rejects elements with NUL, and those that are not UTF-8.

use bytes::Bytes;
use flyball_core::{Shape, Tensor};
use ort::AsPointer;
use ort::memory::Allocator;
use ort::value::{DynTensor, DynValue, TensorElementType, ValueType};
use std::ffi::c_char;

/// A tensor with copies of the strings.
pub(crate) fn tensor(shape: &[i64], strings: &[Bytes]) -> ort::Result<DynTensor> {
    if Tensor::elements(shape) != Some(strings.len()) {
        return Err(ort::Error::new(format!("{} strings do not fill the shape {shape:?}", strings.len())));
    }
    let mut tensor = DynTensor::new(&Allocator::default(), TensorElementType::String, shape)?;
    for (index, string) in strings.iter().enumerate() {
        // The elements of a new tensor are empty strings.
        if !string.is_empty() {
            fill(&mut tensor, index, string)?;
        }
    }
    Ok(tensor)
}

fn fill(tensor: &mut DynTensor, index: usize, string: &[u8]) -> ort::Result<()> {
    let mut buffer: *mut c_char = std::ptr::null_mut();
    // SAFETY: the tensor is valid and exclusively borrowed, and the status goes nowhere else. ONNX Runtime
    // itself rejects a wrong index and a tensor that is not of strings.
    unsafe {
        let resize = ort::api().GetResizedStringTensorElementBuffer;
        ort::Error::result_from_status(resize(tensor.ptr_mut(), index, string.len(), &raw mut buffer))?;
    }
    if buffer.is_null() {
        return Err(ort::Error::new("ONNX Runtime gave no room for a string"));
    }
    // SAFETY: the buffer belongs to the element, with `string.len()` bytes, until the tensor is next touched;
    // it is ONNX Runtime's memory, so the two do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(string.as_ptr(), buffer.cast::<u8>(), string.len()) };
    Ok(())
}

/// The shape and the elements of a tensor, which share one allocation.
pub(crate) fn read(value: &DynValue) -> ort::Result<(Shape, Vec<Bytes>)> {
    let shape: Shape = match value.dtype() {
        ValueType::Tensor { shape, .. } => shape.iter().copied().collect(),
        _ => return Err(ort::Error::new("the output is not a tensor")),
    };
    let count = Tensor::elements(&shape).unwrap_or(0);
    let (mut length, mut starts) = (0, vec![0_usize; count]);
    // SAFETY: the value is valid, and the status goes nowhere else. ONNX Runtime itself rejects a tensor that is not of
    // strings.
    let asked = unsafe { (ort::api().GetStringTensorDataLength)(value.ptr(), &raw mut length) };
    // SAFETY: it is the status of the call above, used once.
    unsafe { ort::Error::result_from_status(asked) }?;
    let mut bytes = vec![0_u8; length];
    // SAFETY: both buffers have the sizes that are passed with them, and ONNX Runtime rejects any others.
    unsafe {
        let get = ort::api().GetStringTensorContent;
        let buffer = bytes.as_mut_ptr().cast();
        ort::Error::result_from_status(get(value.ptr(), buffer, length, starts.as_mut_ptr(), count))?;
    }
    let bytes = Bytes::from(bytes);
    let ends = starts.iter().skip(1).chain([&length]);
    Ok((shape, starts.iter().zip(ends).map(|(&start, &end)| bytes.slice(start..end)).collect()))
}
