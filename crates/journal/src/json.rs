//! Renders a record as JSON for Python, people and exporters.
//!
//! `docs/reference/decision-records.md` lists the keys. Accepts any bytes: trusts no length in them and
//! rejects deep nesting. Knows the form of a record, not its meaning.

mod value;

use crate::format::Hash;
use crate::keys::{Keys, Unsealed};
use flyball_core::{DecisionId, Stage};
use minicbor::Decoder;
use minicbor::decode::Error;
use serde_json::{Map, Value, json};
use value::{map_of, value, values};

#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("this build cannot read the record: {0}; read it with the version that wrote it, or a newer one")]
    Cbor(#[from] Error),
    #[error("the record has bytes after its end")]
    Longer,
}

/// Renders a record. Decrypts personal data with the keys, or marks it as sealed without them.
pub fn render(payload: &[u8], keys: Option<&Keys>) -> Result<Value, RenderError> {
    let mut decoder = Decoder::new(payload);
    let mut record = Map::new();
    let mut personal = None;
    let (mut id, mut subject) = (DecisionId(0), Hash::default());
    for _ in 0..map_of(&mut decoder)? {
        let key = decoder.str()?;
        let shown = match key {
            "id" => {
                id = DecisionId(u128::from_be_bytes(fixed(&mut decoder)?));
                json!(id.to_string())
            }
            "subject" => {
                subject = Hash(fixed(&mut decoder)?);
                json!(subject.to_string())
            }
            "personal" => {
                personal = Some(decoder.bytes()?);
                continue;
            }
            "at" => {
                let at = decoder.i64()?;
                record.insert("time".to_owned(), time(at));
                json!(at)
            }
            _ => pair(key, &mut decoder)?,
        };
        record.insert(key.to_owned(), shown);
    }
    if decoder.position() < payload.len() {
        return Err(RenderError::Longer);
    }
    // A gap has two times; it was reported at the later one.
    if !record.contains_key("at")
        && let Some(to) = record.get("to").and_then(Value::as_i64)
    {
        record.extend([("at".to_owned(), json!(to)), ("time".to_owned(), time(to))]);
    }
    if let Some(sealed) = personal {
        let erased = record.get("kind").is_some_and(|kind| kind == "erased");
        let opened = keys.map(|keys| {
            // The reason of an erasure is under a key of its own record.
            let token = if erased { keys.token(&[], id) } else { subject };
            keys.open_personal(&token, id, sealed)
        });
        reveal(&mut record, opened)?;
    }
    Ok(Value::Object(record))
}

/// Puts decrypted personal data back in its place, or states why it cannot.
fn reveal(
    record: &mut Map<String, Value>,
    opened: Option<Result<Unsealed, crate::KeyError>>,
) -> Result<(), RenderError> {
    let state = match opened {
        None => "sealed",
        Some(Ok(Unsealed::Erased)) => "erased",
        Some(Err(error)) => {
            record.insert("personal_error".to_owned(), json!(error.to_string()));
            "sealed"
        }
        Some(Ok(Unsealed::Plain(plain))) => {
            let mut decoder = Decoder::new(&plain);
            for _ in 0..map_of(&mut decoder)? {
                match decoder.str()? {
                    part @ "input" => {
                        merge(record, part, "personal_fields", pair(part, &mut decoder)?)?;
                    }
                    part @ "features" => {
                        merge(record, part, "personal_features", pair(part, &mut decoder)?)?;
                    }
                    part @ ("row" | "why") => {
                        record.insert(part.to_owned(), value(&mut decoder)?);
                        record.insert("personal_values".to_owned(), json!([part]));
                    }
                    _ => {
                        return Err(
                            Error::message("only input, features, row and why can be personal").into()
                        );
                    }
                }
            }
            return Ok(());
        }
    };
    record.insert("personal".to_owned(), json!(state));
    Ok(())
}

/// Adds the personal fields of a part and lists their keys under `names`.
fn merge(
    record: &mut Map<String, Value>,
    part: &str,
    names: &str,
    personal: Value,
) -> Result<(), RenderError> {
    let Value::Object(personal) = personal else {
        return Err(Error::message("personal data must be a map").into());
    };
    record.insert(names.to_owned(), json!(personal.keys().collect::<Vec<_>>()));
    match record.entry(part).or_insert_with(|| json!({})) {
        Value::Object(plain) => plain.extend(personal),
        other => *other = Value::Object(personal),
    }
    Ok(())
}

/// Renders pairs whose values are stored without names.
fn pair(key: &str, decoder: &mut Decoder<'_>) -> Result<Value, Error> {
    match key {
        "document" | "policy" | "schema" | "runtime" | "deployment" | "hash" => digest(decoder),
        "features" => {
            let mut features = Map::new();
            for _ in 0..map_of(decoder)? {
                features.insert(decoder.str()?.to_owned(), named(decoder, ["value", "origin", "age_ms"])?);
            }
            Ok(Value::Object(features))
        }
        // The reasons of a gap are counts by label.
        "reasons" if decoder.datatype()? == minicbor::data::Type::Array => {
            values(decoder, |decoder| named(decoder, ["code", "field", "contribution"]))
        }
        "batch" => values(decoder, |decoder| named(decoder, ["model", "rows", "position"])),
        "models" => values(decoder, |decoder| {
            value::array_of(decoder, 3)?;
            let (model, version) = (value(decoder)?, value(decoder)?);
            Ok(json!({"model": model, "version": version, "digest": digest(decoder)?}))
        }),
        "remedy" if decoder.datatype()? != minicbor::data::Type::Null => {
            named(decoder, ["cause", "stage", "used"])
        }
        "input_blob" => {
            value::array_of(decoder, 2)?;
            Ok(json!([digest(decoder)?, value(decoder)?]))
        }
        "timings" => {
            let Value::Array(spent) = value(decoder)? else {
                return Err(Error::message("timings are an array"));
            };
            let stages = Stage::ALL.iter().map(|stage| stage.label().to_owned());
            Ok(Value::Object(stages.zip(spent).collect()))
        }
        _ => value(decoder),
    }
}

/// Reads an array with one value for each name.
fn named<const N: usize>(decoder: &mut Decoder<'_>, names: [&str; N]) -> Result<Value, Error> {
    value::array_of(decoder, N as u64)?;
    let mut object = Map::new();
    for name in names {
        object.insert(name.to_owned(), value(decoder)?);
    }
    Ok(Value::Object(object))
}

fn digest(decoder: &mut Decoder<'_>) -> Result<Value, Error> {
    Ok(json!(format!("sha256:{}", Hash(fixed(decoder)?))))
}

fn fixed<const N: usize>(decoder: &mut Decoder<'_>) -> Result<[u8; N], Error> {
    decoder.bytes()?.try_into().map_err(|_| Error::message(format!("expected {N} bytes")))
}

/// Formats RFC 3339; null for a time outside the calendar.
fn time(unix_ns: i64) -> Value {
    jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).map_or(Value::Null, |time| json!(time.to_string()))
}

#[cfg(test)]
mod tests;
