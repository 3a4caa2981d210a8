//! Typed tensor contents of gRPC: each datatype has its list, narrower integers share a wider one.

use super::check::{Budget, Described};
use super::numbers::allowed;
use crate::proto::inference::InferTensorContents;
use flyball_core::{DataType, Fault, Tensor, TensorData};
use std::fmt::Display;

pub(super) fn read(
    tensor: Described,
    contents: Option<InferTensorContents>,
    budget: &mut Budget<'_>,
) -> Result<Tensor, Fault> {
    budget.take_elements(&tensor)?;
    let contents = contents.unwrap_or_default();
    check_list(&tensor, &contents)?;
    let all = &contents;
    let data = match tensor.datatype {
        DataType::Bool => fixed(&tensor, &all.bool_contents, |&value| Some([u8::from(value)])),
        DataType::Int8 => fixed(&tensor, &all.int_contents, |&v| i8::try_from(v).ok().map(i8::to_le_bytes)),
        DataType::Int16 => {
            fixed(&tensor, &all.int_contents, |&v| i16::try_from(v).ok().map(i16::to_le_bytes))
        }
        DataType::Int32 => fixed(&tensor, &all.int_contents, |v| Some(v.to_le_bytes())),
        DataType::Int64 => fixed(&tensor, &all.int64_contents, |v| Some(v.to_le_bytes())),
        DataType::Uint8 => fixed(&tensor, &all.uint_contents, |&v| u8::try_from(v).ok().map(u8::to_le_bytes)),
        DataType::Uint16 => {
            fixed(&tensor, &all.uint_contents, |&v| u16::try_from(v).ok().map(u16::to_le_bytes))
        }
        DataType::Uint32 => fixed(&tensor, &all.uint_contents, |v| Some(v.to_le_bytes())),
        DataType::Uint64 => fixed(&tensor, &all.uint64_contents, |v| Some(v.to_le_bytes())),
        DataType::Fp32 => fixed(&tensor, &all.fp32_contents, |v| Some(v.to_le_bytes())),
        DataType::Fp64 => fixed(&tensor, &all.fp64_contents, |v| Some(v.to_le_bytes())),
        DataType::Bytes => strings(&tensor, &all.bytes_contents, budget),
        DataType::Fp16 | DataType::Bf16 => {
            Err(tensor.only_raw("typed contents carry no 16-bit floats: send it in raw_input_contents"))
        }
    }?;
    Ok(tensor.with(data))
}

/// The only list that may contain a datatype's elements.
fn list_for(datatype: DataType) -> &'static str {
    match datatype {
        DataType::Bool => "bool_contents",
        DataType::Int8 | DataType::Int16 | DataType::Int32 => "int_contents",
        DataType::Int64 => "int64_contents",
        DataType::Uint8 | DataType::Uint16 | DataType::Uint32 => "uint_contents",
        DataType::Uint64 => "uint64_contents",
        DataType::Fp32 => "fp32_contents",
        DataType::Fp64 => "fp64_contents",
        DataType::Bytes => "bytes_contents",
        DataType::Fp16 | DataType::Bf16 => "raw_input_contents",
    }
}

fn check_list(tensor: &Described, contents: &InferTensorContents) -> Result<(), Fault> {
    let lists = [
        ("bool_contents", contents.bool_contents.len()),
        ("int_contents", contents.int_contents.len()),
        ("int64_contents", contents.int64_contents.len()),
        ("uint_contents", contents.uint_contents.len()),
        ("uint64_contents", contents.uint64_contents.len()),
        ("fp32_contents", contents.fp32_contents.len()),
        ("fp64_contents", contents.fp64_contents.len()),
        ("bytes_contents", contents.bytes_contents.len()),
    ];
    let wanted = list_for(tensor.datatype);
    match lists.into_iter().find(|&(name, length)| name != wanted && length > 0) {
        None => Ok(()),
        Some((name, _)) => Err(tensor
            .malformed(format_args!("{name} is filled, but {} belongs in {wanted}", tensor.datatype.name()))),
    }
}

fn fixed<const SIZE: usize, T: Display>(
    tensor: &Described,
    list: &[T],
    element: impl Fn(&T) -> Option<[u8; SIZE]>,
) -> Result<TensorData, Fault> {
    if list.len() != tensor.elements {
        return Err(tensor.wrong_count(list.len()));
    }
    let mut bytes = Vec::with_capacity(list.len() * SIZE);
    for (place, value) in list.iter().enumerate() {
        let le = element(value).ok_or_else(|| {
            tensor.invalid(format_args!(
                "element {place} is {value}; {} takes {}",
                tensor.datatype.name(),
                allowed(tensor.datatype)
            ))
        })?;
        bytes.extend_from_slice(&le);
    }
    Ok(TensorData::Fixed(bytes.into()))
}

fn strings(tensor: &Described, list: &[bytes::Bytes], budget: &mut Budget<'_>) -> Result<TensorData, Fault> {
    if list.len() != tensor.elements {
        return Err(tensor.wrong_count(list.len()));
    }
    list.iter().try_for_each(|string| budget.take(&tensor.name, string.len()))?;
    Ok(TensorData::Strings(list.to_vec()))
}
