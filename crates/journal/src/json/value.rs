//! Renders any CBOR value of a record as JSON.

use crate::note::hex;
use minicbor::Decoder;
use minicbor::data::{Tag, Type};
use minicbor::decode::Error;
use serde_json::{Map, Value, json};

/// Records nest four deep; input may nest a little deeper.
const DEPTH_MAX: usize = 32;
/// RFC 9581: seconds under 1, nanoseconds under -9.
const EXTENDED_TIME: Tag = Tag::new(1001);

pub(super) fn value(decoder: &mut Decoder<'_>) -> Result<Value, Error> {
    nested(decoder, DEPTH_MAX)
}

/// The number of pairs of a definite-length map.
pub(super) fn map_of(decoder: &mut Decoder<'_>) -> Result<u64, Error> {
    decoder.map()?.ok_or_else(|| Error::message("a map of a record must have a definite length"))
}

/// Requires an array of exactly this length.
pub(super) fn array_of(decoder: &mut Decoder<'_>, length: u64) -> Result<(), Error> {
    match decoder.array()? {
        Some(found) if found == length => Ok(()),
        _ => Err(Error::message(format!("expected an array of {length}"))),
    }
}

pub(super) fn values<'b>(
    decoder: &mut Decoder<'b>,
    mut each: impl FnMut(&mut Decoder<'b>) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let length =
        decoder.array()?.ok_or_else(|| Error::message("an array of a record must have a definite length"))?;
    // Not preallocated: the length may be false.
    let mut array = Vec::new();
    for _ in 0..length {
        array.push(each(decoder)?);
    }
    Ok(Value::Array(array))
}

fn nested(decoder: &mut Decoder<'_>, depth: usize) -> Result<Value, Error> {
    let depth = depth.checked_sub(1).ok_or_else(|| Error::message("the nesting is too deep"))?;
    Ok(match decoder.datatype()? {
        Type::Null => {
            decoder.null()?;
            Value::Null
        }
        Type::Bool => json!(decoder.bool()?),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => json!(decoder.u64()?),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => json!(decoder.i64()?),
        Type::F16 => float(f64::from(decoder.f16()?)),
        Type::F32 => float(f64::from(decoder.f32()?)),
        Type::F64 => float(decoder.f64()?),
        Type::String => json!(decoder.str()?),
        Type::Bytes => json!(hex(decoder.bytes()?)),
        Type::Array => values(decoder, |decoder| nested(decoder, depth))?,
        Type::Map => {
            let mut object = Map::new();
            for _ in 0..map_of(decoder)? {
                object.insert(decoder.str()?.to_owned(), nested(decoder, depth)?);
            }
            Value::Object(object)
        }
        Type::Tag => {
            if decoder.tag()? != EXTENDED_TIME {
                return Err(Error::message("unknown tag in a record"));
            }
            extended_time(decoder)?
        }
        other => return Err(Error::message(format!("a record cannot contain {other}"))),
    })
}

/// JSON cannot represent NaN and infinities.
fn float(number: f64) -> Value {
    match number {
        _ if number.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        _ => json!(number),
    }
}

fn extended_time(decoder: &mut Decoder<'_>) -> Result<Value, Error> {
    let (mut seconds, mut nanoseconds) = (0i64, 0i64);
    for _ in 0..map_of(decoder)? {
        match decoder.i64()? {
            1 => seconds = decoder.i64()?,
            -9 => nanoseconds = decoder.i64()?,
            other => return Err(Error::message(format!("unknown part {other} of a time"))),
        }
    }
    let unix_ns = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    let time = jiff::Timestamp::from_nanosecond(unix_ns);
    time.map(|time| json!(time.to_string())).map_err(|_| Error::message("the time is outside the calendar"))
}
