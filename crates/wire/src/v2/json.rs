//! Responses and errors in JSON, written straight into one buffer.
//!
//! Floats use the shortest form that parses back to the same value. Infinities and NaN are words that the
//! standard does not have; in strict JSON they are a fault, never `null`.

use super::{binary, non_finite};
use bytes::{BufMut, Bytes, BytesMut};
use flyball_core::{Answer, DataType, Fault, FaultKind, OutputSlot, Stage, Tensor, TensorData};
use serde::Serialize;

const BINARY_ADVICE: &str = "ask for it as binary data (outputs[].parameters.binary_data or \
                             parameters.binary_data_output) or over gRPC";

/// The JSON part of a response.
pub(super) fn write_answer(answer: &Answer<'_>, strict: bool, out: &mut BytesMut) -> Result<(), Fault> {
    out.extend_from_slice(b"{\"model_name\":");
    write_value(answer.model, out)?;
    out.extend_from_slice(b",\"model_version\":");
    write_value(answer.version, out)?;
    if let Some(id) = answer.id {
        out.extend_from_slice(b",\"id\":");
        write_value(id, out)?;
    }
    out.extend_from_slice(b",\"outputs\":[");
    for (number, (tensor, place)) in answer.each().enumerate() {
        if number > 0 {
            out.put_u8(b',');
        }
        write_output(tensor, place, strict, out)?;
    }
    out.extend_from_slice(b"]}");
    Ok(())
}

/// Maximum bytes around an output's texts and numbers: keys, brackets, a size.
const OUTPUT_BYTES: usize = 128;
/// One number of a shape, with its comma.
const AXIS_BYTES: usize = 21;

/// Maximum size of the JSON part.
pub(super) fn size_max(answer: &Answer<'_>) -> usize {
    let outputs = answer.each().map(|(tensor, place)| {
        let data = if place.region.is_some() || place.raw { 0 } else { data_size_max(tensor) };
        OUTPUT_BYTES + text_size(&tensor.name) + tensor.shape.len() * AXIS_BYTES + data
    });
    let texts = [answer.model, answer.version, answer.id.unwrap_or_default()];
    OUTPUT_BYTES + texts.map(text_size).iter().sum::<usize>() + outputs.sum::<usize>()
}

fn data_size_max(tensor: &Tensor) -> usize {
    let bytes = match &tensor.data {
        TensorData::Strings(strings) => return strings.iter().map(|text| bytes_size(text) + 1).sum(),
        TensorData::Fixed(bytes) => bytes.len(),
    };
    // The longest number of each type with its comma, such as -1.1754944e-38 and -2.2250738585072014e-308.
    let (size, width) = match tensor.datatype {
        DataType::Bool => (1, 6),
        DataType::Uint8 => (1, 4),
        DataType::Int8 => (1, 5),
        DataType::Uint16 => (2, 6),
        DataType::Int16 => (2, 7),
        DataType::Uint32 => (4, 11),
        DataType::Int32 => (4, 12),
        DataType::Fp32 => (4, 17),
        DataType::Uint64 | DataType::Int64 => (8, 21),
        DataType::Fp64 => (8, 25),
        // JSON does not support these: writing them fails at once.
        DataType::Fp16 | DataType::Bf16 | DataType::Bytes => (1, 0),
    };
    bytes / size * width
}

/// The exact size of a text with its quotes.
fn text_size(text: &str) -> usize {
    bytes_size(text.as_bytes())
}

fn bytes_size(text: &[u8]) -> usize {
    let byte = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    2 + text.iter().map(|&one| byte(one)).sum::<usize>()
}

/// `{"error": text}`, the body of every error.
pub fn error_body(text: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(text.len() + 16);
    out.extend_from_slice(b"{\"error\":");
    if write_value(text, &mut out).is_err() {
        out.extend_from_slice(b"\"\"");
    }
    out.put_u8(b'}');
    out.freeze()
}

fn write_output(tensor: &Tensor, place: &OutputSlot, strict: bool, out: &mut BytesMut) -> Result<(), Fault> {
    out.extend_from_slice(b"{\"name\":");
    write_value(&*tensor.name, out)?;
    out.extend_from_slice(b",\"datatype\":\"");
    out.extend_from_slice(tensor.datatype.name().as_bytes());
    out.extend_from_slice(b"\",\"shape\":");
    write_value(tensor.shape.as_slice(), out)?;
    if place.region.is_some() {
        // Without parameters, as in Triton: its C++ client looks for binary_data_size wherever there are
        // some.
        out.put_u8(b'}');
    } else if place.raw {
        out.extend_from_slice(b",\"parameters\":{\"binary_data_size\":");
        write_value(&binary::size(&tensor.data), out)?;
        out.extend_from_slice(b"}}");
    } else {
        out.extend_from_slice(b",\"data\":");
        write_data(tensor, strict, out)?;
        out.put_u8(b'}');
    }
    Ok(())
}

fn write_texts(tensor: &Tensor, strings: &[Bytes], out: &mut BytesMut) -> Result<(), Fault> {
    out.put_u8(b'[');
    for (place, string) in strings.iter().enumerate() {
        let text = std::str::from_utf8(string).map_err(|error| {
            let name = &tensor.name;
            not_representable(format!(
                "output '{name}' has bytes that are not UTF-8 ({error}); {BINARY_ADVICE}"
            ))
        })?;
        if place > 0 {
            out.put_u8(b',');
        }
        write_value(text, out)?;
    }
    out.put_u8(b']');
    Ok(())
}

fn write_data(tensor: &Tensor, strict: bool, out: &mut BytesMut) -> Result<(), Fault> {
    let bytes = match &tensor.data {
        TensorData::Strings(strings) => return write_texts(tensor, strings, out),
        TensorData::Fixed(bytes) => bytes.as_ref(),
    };
    let write_word = |value: f64, out: &mut BytesMut| {
        if strict {
            return Err(not_finite(tensor, value));
        }
        out.extend_from_slice(non_finite::word(value).as_bytes());
        Ok(())
    };
    match tensor.datatype {
        DataType::Bool => write_list(bytes, out, |[byte], out| write_value(&(byte != 0), out)),
        DataType::Uint8 => write_list(bytes, out, |le, out| write_value(&u8::from_le_bytes(le), out)),
        DataType::Uint16 => write_list(bytes, out, |le, out| write_value(&u16::from_le_bytes(le), out)),
        DataType::Uint32 => write_list(bytes, out, |le, out| write_value(&u32::from_le_bytes(le), out)),
        DataType::Uint64 => write_list(bytes, out, |le, out| write_value(&u64::from_le_bytes(le), out)),
        DataType::Int8 => write_list(bytes, out, |le, out| write_value(&i8::from_le_bytes(le), out)),
        DataType::Int16 => write_list(bytes, out, |le, out| write_value(&i16::from_le_bytes(le), out)),
        DataType::Int32 => write_list(bytes, out, |le, out| write_value(&i32::from_le_bytes(le), out)),
        DataType::Int64 => write_list(bytes, out, |le, out| write_value(&i64::from_le_bytes(le), out)),
        DataType::Fp32 => write_list(bytes, out, |le, out| {
            let value = f32::from_le_bytes(le);
            if value.is_finite() { write_value(&value, out) } else { write_word(f64::from(value), out) }
        }),
        DataType::Fp64 => write_list(bytes, out, |le, out| {
            let value = f64::from_le_bytes(le);
            if value.is_finite() { write_value(&value, out) } else { write_word(value, out) }
        }),
        DataType::Fp16 | DataType::Bf16 => Err(not_representable(format!(
            "output '{}' is {}, which JSON does not carry; {BINARY_ADVICE}",
            tensor.name,
            tensor.datatype.name()
        ))),
        DataType::Bytes => Err(not_representable(format!(
            "output '{}' is BYTES but holds no strings; report this as a bug",
            tensor.name
        ))),
    }
}

fn write_list<const SIZE: usize>(
    bytes: &[u8],
    out: &mut BytesMut,
    write: impl Fn([u8; SIZE], &mut BytesMut) -> Result<(), Fault>,
) -> Result<(), Fault> {
    out.put_u8(b'[');
    for (place, chunk) in bytes.as_chunks::<SIZE>().0.iter().enumerate() {
        if place > 0 {
            out.put_u8(b',');
        }
        write(*chunk, out)?;
    }
    out.put_u8(b']');
    Ok(())
}

fn write_value<T: Serialize + ?Sized>(value: &T, out: &mut BytesMut) -> Result<(), Fault> {
    // Writing numbers and strings into memory cannot fail; the fault avoids relying on it.
    serde_json::to_writer(out.writer(), value)
        .map_err(|error| not_representable(format!("the answer cannot be written as JSON: {error}")))
}

fn not_finite(tensor: &Tensor, value: f64) -> Fault {
    not_representable(format!(
        "output '{}' holds {value}, which strict JSON cannot carry; {BINARY_ADVICE}",
        tensor.name
    ))
}

fn not_representable(text: String) -> Fault {
    Fault::new(FaultKind::AnswerNotRepresentable, Stage::Respond, text)
}
