//! Values of fields and features, small enough to copy. Texts are stored in the request's `Rows`.

use crate::document::FieldType;

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

/// The type of a slot's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int,
    Float,
    Text,
    Category,
    Time,
}

impl Kind {
    /// The name that authors write.
    pub const fn label(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Text => "string",
            Kind::Category => "category",
            Kind::Time => "time",
        }
    }
}

impl From<FieldType> for Kind {
    fn from(field: FieldType) -> Kind {
        match field {
            FieldType::Bool => Kind::Bool,
            FieldType::Int => Kind::Int,
            FieldType::Float => Kind::Float,
            FieldType::String => Kind::Text,
            FieldType::Category => Kind::Category,
            FieldType::Time => Kind::Time,
        }
    }
}
