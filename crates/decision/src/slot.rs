//! A reference from a plan to a field's value: as the text of a key, or as a number.

use crate::rows::Rows;
use crate::value::{Kind, Value};
use std::sync::Arc;

/// Room for the text of a number, on the stack.
pub use itoa::Buffer as KeyBuffer;

#[derive(Clone, Debug)]
pub struct Slot {
    pub slot: usize,
    /// Of a category; else empty.
    pub(crate) values: Arc<[String]>,
}

impl Slot {
    /// The kinds that can be a key.
    pub(crate) const KEYS: [Kind; 3] = [Kind::Text, Kind::Int, Kind::Category];

    /// The value as a key: a text as it is, a category by its text, an int in decimal. None: missing.
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
