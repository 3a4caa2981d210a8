//! Strict JSON of signed documents, field by field: no duplicate keys, bounded depth, faults with paths.
//!
//! Hand-written instead of derived: a derived reader also accepts a list for an object, and then two readers
//! of one signature could see two documents.

use crate::refused::Refused;
use crate::timestamp::Timestamp;
use flyball_core::Digest;
use flyball_core::snapshot::{is_valid_name, strict_json};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Maximum nesting of lists and objects.
const DEPTH_MAX: usize = 32;
const TEXT_CHARACTERS_MAX: usize = 1024;

/// Parses a document's JSON; size and depth are checked before anything is built from it.
pub(crate) fn parse(what: &'static str, bytes: &[u8], bytes_max: usize) -> Result<Value, Refused> {
    if bytes.len() > bytes_max {
        return Err(Refused::TooLarge { what, limit: format!("{bytes_max} bytes") });
    }
    if depth(bytes) > DEPTH_MAX {
        return Err(Refused::TooLarge { what, limit: format!("{DEPTH_MAX} levels of JSON") });
    }
    strict_json(bytes)
        .map_err(|fault| Refused::Malformed { what, why: format!("its JSON is wrong: {fault}") })
}

/// The nesting depth of brackets, outside of texts.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut text, mut escaped) = (0_usize, 0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = text,
            b'"' => text = !text,
            b'[' | b'{' if !text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// An object within a document.
pub(crate) struct Fields<'v> {
    what: &'static str,
    path: String,
    map: &'v Map<String, Value>,
}

impl<'v> Fields<'v> {
    pub(crate) fn root(what: &'static str, value: &'v Value) -> Result<Fields<'v>, Refused> {
        Fields::at(what, String::new(), value)
    }

    fn at(what: &'static str, path: String, value: &'v Value) -> Result<Fields<'v>, Refused> {
        match value {
            Value::Object(map) => Ok(Fields { what, path, map }),
            _ if path.is_empty() => {
                Err(Refused::Malformed { what, why: "it must be a JSON object".to_owned() })
            }
            _ => Err(Refused::Malformed { what, why: format!("'{path}' must be an object") }),
        }
    }

    /// Rejects unknown keys.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Refused> {
        match self.map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(self.fault(key, "left out: no such key is known")),
            None => Ok(()),
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    pub(crate) fn fault(&self, key: &str, must: &str) -> Refused {
        Refused::Malformed { what: self.what, why: format!("'{}' must be {must}", self.join(key)) }
    }

    pub(crate) fn text(&self, key: &str) -> Result<&'v str, Refused> {
        self.map.get(key).and_then(Value::as_str).ok_or_else(|| self.fault(key, "a text"))
    }

    pub(crate) fn short_text(&self, key: &str) -> Result<&'v str, Refused> {
        let text = self.text(key)?;
        if text.chars().count() <= TEXT_CHARACTERS_MAX {
            return Ok(text);
        }
        Err(self.fault(key, &format!("a text of {TEXT_CHARACTERS_MAX} characters at most")))
    }

    /// A text with a single allowed value; another belongs to an unsupported format.
    pub(crate) fn constant(&self, key: &str, served: &str) -> Result<(), Refused> {
        let is = self.text(key)?;
        if is == served { Ok(()) } else { Err(self.unsupported(key, is, served)) }
    }

    pub(crate) fn constant_number(&self, key: &str, served: u64) -> Result<(), Refused> {
        let is = self.map.get(key).and_then(Value::as_number).filter(|is| is.is_i64() || is.is_u64());
        let is = is.ok_or_else(|| self.fault(key, "a whole number"))?;
        if is.as_u64() == Some(served) { Ok(()) } else { Err(self.unsupported(key, is, served)) }
    }

    fn unsupported(&self, key: &str, is: impl Display, served: impl Display) -> Refused {
        let why = format!("'{}' is {is}, and only {served} is served", self.join(key));
        Refused::Unsupported { what: self.what, why }
    }

    pub(crate) fn number(&self, key: &str, allowed: RangeInclusive<u64>) -> Result<u64, Refused> {
        let number = self.map.get(key).and_then(Value::as_u64).filter(|number| allowed.contains(number));
        number.ok_or_else(|| {
            self.fault(key, &format!("a whole number from {} to {}", allowed.start(), allowed.end()))
        })
    }

    /// A name as in Snapshots.
    pub(crate) fn name(&self, key: &str) -> Result<&'v str, Refused> {
        let name = self.text(key)?;
        if is_valid_name(name) {
            Ok(name)
        } else {
            Err(self.fault(key, "a name: A-Z a-z 0-9 . _ - and no dot first"))
        }
    }

    pub(crate) fn flag(&self, key: &str) -> Result<bool, Refused> {
        self.map.get(key).and_then(Value::as_bool).ok_or_else(|| self.fault(key, "true or false"))
    }

    pub(crate) fn moment(&self, key: &str) -> Result<Timestamp, Refused> {
        let moment = self.map.get(key).and_then(Value::as_str).and_then(Timestamp::read);
        moment.ok_or_else(|| self.fault(key, Timestamp::FORM))
    }

    pub(crate) fn digest(&self, key: &str) -> Result<Digest, Refused> {
        let digest = self.map.get(key).and_then(Value::as_str).and_then(|text| text.parse().ok());
        digest.ok_or_else(|| self.fault(key, "\"sha256:\" and 64 lower-case hex digits"))
    }

    /// A digest without its prefix, as in-toto and OMS write it.
    pub(crate) fn hex(&self, key: &str) -> Result<Digest, Refused> {
        let digest = self.map.get(key).and_then(Value::as_str).and_then(hex);
        digest.ok_or_else(|| self.fault(key, "64 lower-case hex digits"))
    }

    pub(crate) fn object(&self, key: &str) -> Result<Fields<'v>, Refused> {
        let value = self.map.get(key).ok_or_else(|| self.fault(key, "an object"))?;
        Fields::at(self.what, self.join(key), value)
    }

    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = &'v String> {
        self.map.keys()
    }

    /// A list of at most this many objects.
    pub(crate) fn objects(&self, key: &str, items_max: usize) -> Result<Vec<Fields<'v>>, Refused> {
        let items = self.list(key)?;
        let path = self.join(key);
        if items.len() > items_max {
            let limit = format!("{items_max} items of '{path}'");
            return Err(Refused::TooLarge { what: self.what, limit });
        }
        let items = items.iter().enumerate();
        items.map(|(place, item)| Fields::at(self.what, format!("{path}[{place}]"), item)).collect()
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Vec<&'v str>, Refused> {
        let texts = self.list(key)?.iter().map(Value::as_str).collect::<Option<Vec<_>>>();
        texts.ok_or_else(|| self.fault(key, "a list of texts"))
    }

    fn list(&self, key: &str) -> Result<&'v [Value], Refused> {
        let items = self.map.get(key).and_then(Value::as_array).ok_or_else(|| self.fault(key, "a list"))?;
        Ok(items)
    }

    /// A value that may be null; an absent key is a fault.
    pub(crate) fn or_null<T>(
        &self,
        read: impl FnOnce(&Self, &str) -> Result<T, Refused>,
        key: &str,
    ) -> Result<Option<T>, Refused> {
        let null = self.map.get(key).is_some_and(Value::is_null);
        if null { Ok(None) } else { read(self, key).map(Some) }
    }

    fn join(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// 64 lower-case hex digits.
pub(crate) fn hex(text: &str) -> Option<Digest> {
    format!("sha256:{text}").parse().ok()
}
