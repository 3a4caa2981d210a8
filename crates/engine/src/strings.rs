//! String tensors made without C strings: an element may contain NUL, which the `ort` crate rejects.

use flyball_core::Tensor;
use ort::AsPointer;
use ort::memory::Allocator;
use ort::value::{DynTensor, TensorElementType};
use std::ffi::c_char;

/// A tensor with copies of the strings.
pub(crate) fn tensor(shape: &[i64], strings: &[String]) -> ort::Result<DynTensor> {
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

fn fill(tensor: &mut DynTensor, index: usize, string: &str) -> ort::Result<()> {
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
