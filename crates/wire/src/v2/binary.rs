//! Tensors as raw bytes, for HTTP's binary extension and gRPC's raw contents.
//!
//! Little-endian, row-major, no padding; BYTES elements as a u32 length and that many bytes.

use super::check::{Budget, Described};
use bytes::{Bytes, BytesMut};
use flyball_core::{DataType, Fault, Tensor, TensorData, triton_texts};

/// Uses `bytes` as the elements of `tensor`; fixed-size elements are not copied.
pub(super) fn read(tensor: Described, bytes: Bytes, budget: &mut Budget<'_>) -> Result<Tensor, Fault> {
    budget.take_elements(&tensor)?;
    check_size(&tensor, bytes.len(), budget.model)?;
    if tensor.datatype == DataType::Bytes {
        let strings = read_strings(&tensor, &bytes, budget)?;
        return Ok(tensor.with(TensorData::Strings(strings)));
    }
    if tensor.datatype == DataType::Bool
        && let Some(place) = bytes.iter().position(|&byte| byte > 1)
    {
        return Err(
            tensor.invalid(format_args!("element {place} is byte {}; a BOOL byte is 0 or 1", bytes[place]))
        );
    }
    Ok(tensor.with(TensorData::Fixed(bytes)))
}

/// Whether a tensor can have this many bytes; BYTES are checked by their elements.
pub(super) fn check_size(tensor: &Described, bytes: usize, model: &str) -> Result<(), Fault> {
    let Some(size) = tensor.datatype.size() else { return Ok(()) };
    if tensor.elements.checked_mul(size) == Some(bytes) {
        return Ok(());
    }
    let wanted = tensor.elements.saturating_mul(size);
    let mismatch = triton_texts::wrong_byte_size(model, &tensor.name, wanted, bytes);
    Err(Fault::malformed(format!(
        "{mismatch} bytes for shape {:?} of {}",
        tensor.shape,
        tensor.datatype.name()
    )))
}

/// The elements share the memory of `bytes`.
fn read_strings(tensor: &Described, bytes: &Bytes, budget: &mut Budget<'_>) -> Result<Vec<Bytes>, Fault> {
    let mut strings = Vec::with_capacity(tensor.elements.min(bytes.len() / 4));
    let mut rest = bytes.as_ref();
    for place in 0..tensor.elements {
        if rest.is_empty() {
            let text = triton_texts::too_few_strings(budget.model, &tensor.name, tensor.elements, place);
            return Err(Fault::malformed(text));
        }
        let cut_short = || {
            tensor.malformed(format_args!(
                "element {place} is cut short; each BYTES element is a u32 length and that many bytes, and shape \
                 {:?} asks for {} elements",
                tensor.shape, tensor.elements
            ))
        };
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(cut_short)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| cut_short())?;
        let (text, after) = after.split_at_checked(length).ok_or_else(cut_short)?;
        budget.take(&tensor.name, length)?;
        strings.push(bytes.slice_ref(text));
        rest = after;
    }
    if rest.is_empty() {
        Ok(strings)
    } else {
        let text = triton_texts::too_many_strings(budget.model, &tensor.name, tensor.elements);
        Err(Fault::malformed(format!("{text}: {} bytes are left", rest.len())))
    }
}

pub(super) fn size(data: &TensorData) -> usize {
    match data {
        TensorData::Fixed(bytes) => bytes.len(),
        TensorData::Strings(strings) => strings.iter().map(|text| 4 + text.len()).sum(),
    }
}

/// Appends the elements in wire form.
pub(super) fn write(data: &TensorData, out: &mut BytesMut) {
    match data {
        TensorData::Fixed(bytes) => out.extend_from_slice(bytes),
        TensorData::Strings(strings) => {
            for text in strings {
                // A length beyond u32 cannot be written; such a text is beyond every body limit as well.
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                out.extend_from_slice(&length.to_le_bytes());
                out.extend_from_slice(text);
            }
        }
    }
}
