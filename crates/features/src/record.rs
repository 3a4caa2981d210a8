//! A record: the named values of one key, as Redis and the embedded store contain them.
//!
//! One JSON object, so that any tool can write and read it: `{"v": 1, "at": 1731672000000, "fields":
//! {"limit": 5000.0, "country": "DE"}}`. Parsing is strict and bounded: anything unexpected is a fault, never
//! a guess.

use flyball_core::Scalar;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum size of a record; a longer one is not read.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 10;
pub(crate) const FIELDS_MAX: usize = 256;
pub(crate) const NAME_BYTES_MAX: usize = 128;
/// Maximum length of a key within a set.
pub(crate) const KEY_BYTES_MAX: usize = 1024;
const VERSION: u64 = 1;

/// A fault of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecordFault(pub String);

#[derive(Clone, Debug, PartialEq)]
enum Held {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
}

/// The values of one key, and when they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    written_at_ms: Option<i64>,
    /// Sorted by name.
    fields: Vec<(Box<str>, Held)>,
}

impl Record {
    pub fn new(written_at_ms: Option<i64>) -> Record {
        Record { written_at_ms, fields: Vec::new() }
    }

    pub fn written_at_ms(&self) -> Option<i64> {
        self.written_at_ms
    }

    /// The field's value; none if it is absent or null.
    pub fn get(&self, field: &str) -> Option<Scalar<'_>> {
        let at = self.place(field).ok()?;
        Some(match &self.fields[at].1 {
            Held::Null => return None,
            Held::Bool(value) => Scalar::Bool(*value),
            Held::Int(value) => Scalar::Int(*value),
            Held::Float(value) => Scalar::Float(*value),
            Held::Text(value) => Scalar::Text(value),
        })
    }

    /// Adds a field. Rejects a duplicate name and values that JSON cannot represent.
    pub fn put(&mut self, name: &str, value: Scalar<'_>) -> Result<(), RecordFault> {
        let held = match value {
            Scalar::Null => Held::Null,
            Scalar::Bool(value) => Held::Bool(value),
            Scalar::Int(value) => Held::Int(value),
            Scalar::Float(value) if value.is_finite() => Held::Float(value),
            Scalar::Float(value) => {
                return Err(RecordFault(format!("field {name:?} is {value}; omit it if it is unknown")));
            }
            Scalar::Text(value) => Held::Text(value.into()),
            Scalar::Other(what) => {
                return Err(RecordFault(format!("field {name:?} is {what}; use a number, a text or a bool")));
            }
        };
        self.insert(name, held)
    }

    fn insert(&mut self, name: &str, held: Held) -> Result<(), RecordFault> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(RecordFault(format!("a field's name must have 1 to {NAME_BYTES_MAX} bytes")));
        }
        if self.fields.len() == FIELDS_MAX {
            return Err(RecordFault(format!("a record can have at most {FIELDS_MAX} fields")));
        }
        match self.place(name) {
            Ok(_) => Err(RecordFault(format!("field {name:?} is given twice"))),
            Err(at) => {
                self.fields.insert(at, (name.into(), held));
                Ok(())
            }
        }
    }

    fn place(&self, field: &str) -> Result<usize, usize> {
        self.fields.binary_search_by(|(name, _)| (**name).cmp(field))
    }

    pub fn read(bytes: &[u8]) -> Result<Record, RecordFault> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(RecordFault(format!("the record is larger than {RECORD_BYTES_MAX} bytes")));
        }
        serde_json::from_slice(bytes).map_err(|error| RecordFault(error.to_string()))
    }

    /// Fields sorted by name, so that equal records are equal bytes.
    pub fn write(&self, into: &mut Vec<u8>) -> Result<(), RecordFault> {
        let begin = into.len();
        serde_json::to_writer(&mut *into, self).map_err(|error| RecordFault(error.to_string()))?;
        if into.len() - begin > RECORD_BYTES_MAX {
            into.truncate(begin);
            return Err(RecordFault(format!(
                "the record is larger than {RECORD_BYTES_MAX} bytes; push fewer columns"
            )));
        }
        Ok(())
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("v", &VERSION)?;
        if let Some(at) = self.written_at_ms {
            map.serialize_entry("at", &at)?;
        }
        map.serialize_entry("fields", &Fields(&self.fields))?;
        map.end()
    }
}

struct Fields<'a>(&'a [(Box<str>, Held)]);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, held)| (name, held)))
    }
}

impl Serialize for Held {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Held::Null => serializer.serialize_unit(),
            Held::Bool(value) => serializer.serialize_bool(*value),
            Held::Int(value) => serializer.serialize_i64(*value),
            Held::Float(value) => serializer.serialize_f64(*value),
            Held::Text(value) => serializer.serialize_str(value),
        }
    }
}

impl<'de> Deserialize<'de> for Held {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Held, D::Error> {
        struct Take;
        impl Visitor<'_> for Take {
            type Value = Held;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of at most 64 bits, a text, a bool or null")
            }

            fn visit_unit<E: Error>(self) -> Result<Held, E> {
                Ok(Held::Null)
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Held, E> {
                Ok(Held::Bool(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Held, E> {
                Ok(Held::Int(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Held, E> {
                i64::try_from(value).map(Held::Int).map_err(|_| E::custom("an integer is beyond 64 bits"))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Held, E> {
                Ok(Held::Float(value))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Held, E> {
                Ok(Held::Text(value.into()))
            }
        }
        deserializer.deserialize_any(Take)
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Record, D::Error> {
        deserializer.deserialize_map(TakeRecord)
    }
}

struct TakeRecord;

impl<'de> Visitor<'de> for TakeRecord {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with v, at and fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let (mut version, mut at, mut fields) = (None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            let twice = match key.as_str() {
                "v" => version.replace(map.next_value::<u64>()?).is_some(),
                "at" => at.replace(map.next_value::<i64>()?).is_some(),
                "fields" => fields.replace(map.next_value_seed(TakeFields)?).is_some(),
                _ => return Err(A::Error::custom("a record has only the keys v, at and fields")),
            };
            if twice {
                return Err(A::Error::custom(format!("{key} is given twice")));
            }
        }
        if version != Some(VERSION) {
            return Err(A::Error::custom(format!("v must be {VERSION}")));
        }
        let mut record = fields.ok_or_else(|| A::Error::missing_field("fields"))?;
        record.written_at_ms = at;
        Ok(record)
    }
}

struct TakeFields;

impl<'de> DeserializeSeed<'de> for TakeFields {
    type Value = Record;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Record, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TakeFields {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let mut record = Record::default();
        while let Some(name) = map.next_key::<String>()? {
            let held = map.next_value::<Held>()?;
            record.insert(&name, held).map_err(A::Error::custom)?;
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Record, String> {
        Record::read(text.as_bytes()).map_err(|fault| fault.0)
    }

    #[test]
    fn a_record_is_one_json_object_that_anyone_can_write() {
        let text = r#"{"v":1,"at":1731672000000,"fields":{"limit":5000.0,"n":3,"vip":true,"country":"DE","x":null}}"#;
        let record = read(text).unwrap();
        assert_eq!(record.written_at_ms(), Some(1_731_672_000_000));
        assert_eq!(record.get("limit"), Some(Scalar::Float(5000.0)));
        assert_eq!(record.get("n"), Some(Scalar::Int(3)));
        assert_eq!(record.get("vip"), Some(Scalar::Bool(true)));
        assert_eq!(record.get("country"), Some(Scalar::Text("DE")));
        assert_eq!(record.get("x"), None);
        assert_eq!(record.get("y"), None);
    }

    #[test]
    fn what_is_not_a_record_is_refused_in_words() {
        let many: String = (0..=FIELDS_MAX).map(|field| format!(r#""f{field}":1,"#)).collect();
        for (text, word) in [
            ("", "EOF"),
            ("[]", "an object"),
            (r#"{"v":2,"fields":{}}"#, "v must be 1"),
            (r#"{"fields":{}}"#, "v must be 1"),
            (r#"{"v":1}"#, "fields"),
            (r#"{"v":1,"v":1,"fields":{}}"#, "twice"),
            (r#"{"v":1,"fields":{"a":1,"a":2}}"#, "twice"),
            (r#"{"v":1,"fields":{"":1}}"#, "bytes"),
            (r#"{"v":1,"fields":{"a":[1]}}"#, "a number"),
            (r#"{"v":1,"fields":{"a":18446744073709551615}}"#, "64 bits"),
            (r#"{"v":1,"fields":{},"extra":0}"#, "only the keys"),
            (r#"{"v":1,"fields":{}} "x""#, "trailing"),
            (&format!(r#"{{"v":1,"fields":{{{many}"z":1}}}}"#), "at most"),
            (&format!(r#"{{"v":1,"fields":{{"a":"{}"}}}}"#, "x".repeat(RECORD_BYTES_MAX)), "larger"),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.contains(word), "{text:.60}: {fault}");
        }
    }

    #[test]
    fn what_json_cannot_say_is_not_put() {
        let mut record = Record::new(None);
        assert!(record.put("a", Scalar::Float(f64::NAN)).is_err());
        assert!(record.put("a", Scalar::Other("a list")).is_err());
        assert!(record.put("a", Scalar::Int(1)).is_ok());
        assert!(record.put("a", Scalar::Int(1)).is_err());
    }

    fn held() -> impl Strategy<Value = Held> {
        prop_oneof![
            Just(Held::Null),
            any::<bool>().prop_map(Held::Bool),
            any::<i64>().prop_map(Held::Int),
            prop::num::f64::ANY.prop_filter("finite", |value| value.is_finite()).prop_map(Held::Float),
            ".{0,20}".prop_map(|text| Held::Text(text.into())),
        ]
    }

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written_to_the_bit(
            at in any::<Option<i64>>(),
            fields in prop::collection::btree_map(".{1,12}", held(), 0..8),
        ) {
            let mut record = Record::new(at);
            for (name, held) in fields {
                record.insert(&name, held).unwrap();
            }
            let mut bytes = Vec::new();
            record.write(&mut bytes).unwrap();
            prop_assert_eq!(Record::read(&bytes).unwrap(), record);
        }

        #[test]
        fn odd_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..64), at in any::<usize>()) {
            let _ = Record::read(&bytes);
            let mut whole = br#"{"v":1,"at":5,"fields":{"a":1.5,"b":"x"}}"#.to_vec();
            let at = at % whole.len();
            whole.splice(at..at, bytes.drain(..));
            let _ = Record::read(&whole);
        }
    }
}
