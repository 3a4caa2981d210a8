//! A plan's reference to a field's value, as a key text or a number.

use crate::rows::Rows;
use crate::value::{Kind, Value};
use std::sync::Arc;

/// A stack buffer for the text of a number.
pub use itoa::Buffer as KeyBuffer;

#[derive(Clone, Debug)]
pub struct Slot {
    pub slot: usize,
    /// Values of a category; else empty.
    pub(crate) values: Arc<[String]>,
}

impl Slot {
    /// The kinds that can be a key.
    pub(crate) const KEYS: [Kind; 3] = [Kind::Text, Kind::Int, Kind::Category];

    /// The value as a key: texts unchanged, categories by text, ints in decimal. None: missing.
    pub fn text<'a>(&'a self, rows: &'a Rows, row: usize, buffer: &'a mut KeyBuffer) -> Option<&'a str> {
        match rows.value(row, self.slot) {
            Value::Text(text) => Some(rows.text(text)),
            Value::Category(place) => self.values.get(place as usize).map(String::as_str),
            Value::Int(value) => Some(buffer.format(value)),
            Value::Missing | Value::Bool(_) | Value::Float(_) | Value::Time(_) => None,
        }
    }

    /// The value as a number. None: missing.
    pub fn number(&self, rows: &Rows, row: usize) -> Option<f64> {
        match rows.value(row, self.slot) {
            Value::Int(value) => Some(value as f64),
            Value::Float(value) => Some(value),
            _ => None,
        }
    }
}
