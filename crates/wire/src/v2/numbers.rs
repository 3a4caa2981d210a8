//! Tensor data in JSON: nested or flat lists, parsed straight into little-endian bytes or strings.
//!
//! The text is known to be valid JSON but for `NaN` and `Infinity`, so the scan only separates brackets from elements; it must still never
//! trust a count, and never panic.

use super::check::{Budget, Described};
use super::non_finite;
use crate::regions::shortened;
use flyball_core::{DataType, Fault, TensorData, triton_texts};
use smallvec::SmallVec;

pub(super) fn read(tensor: &Described, text: &str, budget: &mut Budget<'_>) -> Result<TensorData, Fault> {
    budget.take_elements(tensor)?;
    match tensor.datatype {
        DataType::Fp32 => fixed(tensor, text, |token| {
            let wide = float(token)?;
            let narrow = wide as f32;
            (narrow.is_finite() || !wide.is_finite()).then(|| narrow.to_le_bytes())
        }),
        DataType::Fp64 => fixed(tensor, text, |token| float(token).map(f64::to_le_bytes)),
        DataType::Int64 => fixed(tensor, text, |token| integer::<i64>(token).map(i64::to_le_bytes)),
        DataType::Int32 => fixed(tensor, text, |token| integer::<i32>(token).map(i32::to_le_bytes)),
        DataType::Int16 => fixed(tensor, text, |token| integer::<i16>(token).map(i16::to_le_bytes)),
        DataType::Int8 => fixed(tensor, text, |token| integer::<i8>(token).map(i8::to_le_bytes)),
        DataType::Uint64 => fixed(tensor, text, |token| integer::<u64>(token).map(u64::to_le_bytes)),
        DataType::Uint32 => fixed(tensor, text, |token| integer::<u32>(token).map(u32::to_le_bytes)),
        DataType::Uint16 => fixed(tensor, text, |token| integer::<u16>(token).map(u16::to_le_bytes)),
        DataType::Uint8 => fixed(tensor, text, |token| integer::<u8>(token).map(u8::to_le_bytes)),
        DataType::Bool => fixed(tensor, text, |token| match token {
            "true" => Some([1]),
            "false" => Some([0]),
            _ => None,
        }),
        DataType::Bytes => strings(tensor, text, budget),
        DataType::Fp16 | DataType::Bf16 => Err(tensor.only_raw(
            "JSON carries no 16-bit floats: send it as binary tensor data (binary_data_size) or over gRPC",
        )),
    }
}

fn fixed<const SIZE: usize>(
    tensor: &Described,
    text: &str,
    element: impl Fn(&str) -> Option<[u8; SIZE]>,
) -> Result<TensorData, Fault> {
    // An element takes at least two characters of text, so a shape cannot claim more memory than the text
    // backs.
    let mut bytes = Vec::with_capacity(tensor.elements.min(text.len() / 2 + 1) * SIZE);
    walk(tensor, text, |place, token| {
        let value = element(token).ok_or_else(|| wrong_element(tensor, place, token))?;
        bytes.extend_from_slice(&value);
        Ok(())
    })?;
    Ok(TensorData::Fixed(bytes.into()))
}

fn strings(tensor: &Described, text: &str, budget: &mut Budget<'_>) -> Result<TensorData, Fault> {
    let mut strings = Vec::with_capacity(tensor.elements.min(text.len() / 3 + 1));
    walk(tensor, text, |place, token| {
        budget.take(&tensor.name, token.len())?;
        let plain = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let value: Option<String> = match plain {
            Some(plain) if !plain.contains('\\') => Some(plain.to_owned()),
            Some(_) => serde_json::from_str(token).ok(),
            None => None,
        };
        strings.push(value.ok_or_else(|| wrong_element(tensor, place, token))?.into());
        Ok(())
    })?;
    Ok(TensorData::Strings(strings))
}

fn is_number(token: &str) -> bool {
    matches!(token.as_bytes().first(), Some(b'-' | b'0'..=b'9'))
}

/// The nearest double, exactly: Rust's parser rounds correctly. Decimals beyond the doubles are refused.
fn float(token: &str) -> Option<f64> {
    let finite = token.parse().ok().filter(|value: &f64| value.is_finite() && is_number(token));
    finite.or_else(|| non_finite::value(token))
}

fn integer<T: TryFrom<i64> + TryFrom<u64>>(token: &str) -> Option<T> {
    is_number(token).then_some(())?;
    match token.parse::<i64>() {
        Ok(value) => T::try_from(value).ok(),
        Err(_) => T::try_from(token.parse::<u64>().ok()?).ok(),
    }
}

fn wrong_element(tensor: &Described, place: usize, token: &str) -> Fault {
    let (is, datatype) = (shortened(token, 40), tensor.datatype);
    tensor.invalid(format_args!("element {place} is {is}; {} takes {}", datatype.name(), allowed(datatype)))
}

/// The allowed elements of this type, in words.
pub(super) fn allowed(datatype: DataType) -> &'static str {
    match datatype {
        DataType::Bool => "true or false",
        DataType::Uint8 => "whole numbers from 0 to 255",
        DataType::Uint16 => "whole numbers from 0 to 65535",
        DataType::Uint32 => "whole numbers from 0 to 4294967295",
        DataType::Uint64 => "whole numbers from 0 to 18446744073709551615",
        DataType::Int8 => "whole numbers from -128 to 127",
        DataType::Int16 => "whole numbers from -32768 to 32767",
        DataType::Int32 => "whole numbers from -2147483648 to 2147483647",
        DataType::Int64 => "whole numbers from -9223372036854775808 to 9223372036854775807",
        DataType::Fp16 | DataType::Bf16 => "raw bytes only",
        DataType::Fp32 => "numbers from -3.4028235e38 to 3.4028235e38, NaN and Infinity",
        DataType::Fp64 => "numbers from -1.7976931348623157e308 to 1.7976931348623157e308, NaN and Infinity",
        DataType::Bytes => "strings of valid Unicode",
    }
}

/// Visits the elements of `text` in order.
///
/// Data is either flat, or nested as the shape, where lists of one more or less do not matter: any other nesting that merely
/// has the right count is most often a transposed matrix, and would silently give a wrong result.
fn walk<'t>(
    tensor: &Described,
    text: &'t str,
    mut element: impl FnMut(usize, &'t str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let bytes = text.as_bytes();
    let unlike_shape = || {
        tensor.malformed(format_args!(
            "data is not nested as its shape {:?} says; nest it so, or give it flat",
            tensor.shape
        ))
    };
    let mut levels = SmallVec::<[Level; LEVELS_USUAL]>::new();
    let (mut depth, mut elements, mut at) = (0_usize, 0_usize, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b',' => at += 1,
            b'[' => {
                if depth == levels.len() {
                    // An element or an end of a list came before: lists beside them would be one level deeper.
                    if elements > 0 || levels.iter().any(|level| level.length.is_some()) {
                        return Err(unlike_shape());
                    }
                    if depth == NESTING_MAX {
                        return Err(tensor.malformed(triton_texts::nested_too_deep(NESTING_MAX)));
                    }
                    levels.push(Level::default());
                }
                if let Some(above) = depth.checked_sub(1) {
                    levels[above].count += 1;
                }
                levels[depth].count = 0;
                depth += 1;
                at += 1;
            }
            b']' => {
                depth = depth.saturating_sub(1);
                let Some(level) = levels.get_mut(depth) else { return Err(unlike_shape()) };
                if *level.length.get_or_insert(level.count) != level.count {
                    return Err(unlike_shape());
                }
                at += 1;
            }
            _ => {
                let token = token(text, at);
                if depth != levels.len() || depth == 0 && !tensor.shape.is_empty() {
                    return Err(unlike_shape());
                }
                if elements == tensor.elements {
                    return Err(tensor.wrong_count("more"));
                }
                element(elements, token)?;
                if let Some(level) = levels.last_mut() {
                    level.count += 1;
                }
                elements += 1;
                at += token.len().max(1);
            }
        }
    }
    let wide = |length: &i64| *length != 1;
    let lengths = levels.iter().filter_map(|level| level.length).filter(wide);
    // There is nothing inside an empty list, whatever the axes below it.
    let filled =
        tensor.shape.iter().position(|&axis| axis == 0).map_or(tensor.shape.len(), |empty| empty + 1);
    if levels.len() > 1 && !lengths.eq(tensor.shape[..filled].iter().copied().filter(wide)) {
        return Err(unlike_shape());
    }
    if elements == tensor.elements { Ok(()) } else { Err(tensor.wrong_count(elements)) }
}

/// The lists of one depth: the elements or lists of the present one, and the length that all have.
#[derive(Default)]
struct Level {
    count: i64,
    length: Option<i64>,
}

/// Kept without an allocation.
const LEVELS_USUAL: usize = 8;

/// Triton's limit. It also bounds what hostile brackets cost.
const NESTING_MAX: usize = 100;

/// The element that starts at `at`: a string up to its closing quote, anything else up to its end. For an
/// object only the start is needed, because no datatype accepts one.
fn token(text: &str, at: usize) -> &str {
    let bytes = text.as_bytes();
    let mut end = at + 1;
    if bytes.get(at) == Some(&b'"') {
        while let Some(&byte) = bytes.get(end) {
            end += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
    } else {
        while bytes.get(end).is_some_and(|byte| !matches!(byte, b',' | b']' | b' ' | b'\t' | b'\n' | b'\r')) {
            end += 1;
        }
    }
    text.get(at..end).unwrap_or_default()
}
