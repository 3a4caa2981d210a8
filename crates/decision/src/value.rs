//! Values of fields and features, small enough to copy. Texts are stored in the request's `Rows`.

use serde::{Deserialize, Serialize};

/// A text in `Rows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRef {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Missing,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(TextRef),
    /// The index among the field's values.
    Category(u32),
    /// Nanoseconds since 1970, UTC.
    Time(i64),
}

flyball_core::labelled! {
    /// The type of a field's or feature's value, under the name that authors write.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Kind {
        Bool => "bool",
        Int => "int",
        Float => "float",
        #[serde(rename = "string")]
        Text => "string",
        Category => "category",
        /// RFC 3339, or seconds since 1970.
        Time => "time",
    }
}
