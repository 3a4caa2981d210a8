//! V2 JSON data as raw bytes, by the generator's own encoder.
//!
//! Used for gRPC requests, and to compare responses: two FP32 texts are equal if they denote the same float.

use half::{bf16, f16};
use serde_json::Value;

/// Elements in little-endian bytes; BYTES as u32 length and text. The error names the element that does not
/// fit.
pub(crate) fn encode(datatype: &str, data: &Value) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    append(datatype, data, &mut bytes)?;
    Ok(bytes)
}

fn append(datatype: &str, data: &Value, out: &mut Vec<u8>) -> Result<(), String> {
    if let Value::Array(items) = data {
        return items.iter().try_for_each(|item| append(datatype, item, out));
    }
    append_element(datatype, data, out).ok_or_else(|| format!("{data} is not {datatype}"))
}

fn append_element(datatype: &str, element: &Value, out: &mut Vec<u8>) -> Option<()> {
    match datatype {
        "BOOL" => out.push(u8::from(element.as_bool()?)),
        "UINT8" => out.extend(u8::try_from(element.as_u64()?).ok()?.to_le_bytes()),
        "UINT16" => out.extend(u16::try_from(element.as_u64()?).ok()?.to_le_bytes()),
        "UINT32" => out.extend(u32::try_from(element.as_u64()?).ok()?.to_le_bytes()),
        "UINT64" => out.extend(element.as_u64()?.to_le_bytes()),
        "INT8" => out.extend(i8::try_from(element.as_i64()?).ok()?.to_le_bytes()),
        "INT16" => out.extend(i16::try_from(element.as_i64()?).ok()?.to_le_bytes()),
        "INT32" => out.extend(i32::try_from(element.as_i64()?).ok()?.to_le_bytes()),
        "INT64" => out.extend(element.as_i64()?.to_le_bytes()),
        "FP16" => out.extend(f16::from_f64(element.as_f64()?).to_le_bytes()),
        "BF16" => out.extend(bf16::from_f64(element.as_f64()?).to_le_bytes()),
        "FP32" => out.extend((element.as_f64()? as f32).to_le_bytes()),
        "FP64" => out.extend(element.as_f64()?.to_le_bytes()),
        "BYTES" => {
            let text = element.as_str()?;
            out.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
            out.extend(text.as_bytes());
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_texts_of_one_float_are_equal_and_neighbours_are_not() {
        let bytes = |value| encode("FP32", &json!([value])).expect("encodes");
        assert_eq!(bytes(0.1), bytes(0.100_000_001_490_116_12));
        assert_ne!(bytes(0.1), bytes(0.100_000_01));
    }

    #[test]
    fn what_does_not_fit_its_datatype_is_named() {
        assert_eq!(encode("UINT8", &json!([1, 256])), Err("256 is not UINT8".into()));
        assert_eq!(encode("FP31", &json!([1])), Err("1 is not FP31".into()));
        assert_eq!(encode("BYTES", &json!([["é"]])), Ok(vec![2, 0, 0, 0, 0xc3, 0xa9]));
    }
}
