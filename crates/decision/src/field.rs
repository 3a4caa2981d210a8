//! The values that a field or feature accepts, and their conversion.
//!
//! The same rules apply to request fields, to store values, and to constants of the document.

use crate::rows::Rows;
use crate::value::{Kind, Value};
use flyball_core::Scalar;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// A map keyed by texts of the document. Callers only look up in it, so its hash need not be secret.
pub(crate) type TextMap<T> = HashMap<Box<str>, T, FixedState>;

/// Maximum characters shown of a rejected value.
const SHOWN_CHARACTERS: usize = 60;
/// Maximum category values named in an error.
const NAMED_VALUES: usize = 8;

#[derive(Clone, Debug)]
pub struct Field {
    pub name: Arc<str>,
    pub kind: Kind,
    /// Values of a category with the unknown replacement; else empty.
    pub values: Arc<[String]>,
    pub(crate) places: TextMap<u32>,
    /// The index of the replacement for unlisted values.
    pub(crate) unknown: Option<u32>,
    /// For times: seconds since 1970.
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) length_max: usize,
    pub(crate) required: bool,
    pub(crate) default: Option<Constant>,
    pub pii: bool,
}

/// A value of the document. Texts are copied into the rows when used.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    Plain(Value),
    Text(Arc<str>),
}

impl Constant {
    pub(crate) fn place(&self, rows: &mut Rows) -> Value {
        match self {
            Constant::Plain(value) => *value,
            Constant::Text(text) => Value::Text(rows.keep(text)),
        }
    }
}

/// A converted value; texts still belong to the caller.
enum Accepted<'a> {
    Plain(Value),
    Text(&'a str),
}

impl Field {
    /// A field that accepts any value of a kind.
    pub(crate) fn plain(kind: Kind) -> Field {
        Field {
            name: "".into(),
            kind,
            values: Arc::from([]),
            places: TextMap::default(),
            unknown: None,
            min: None,
            max: None,
            length_max: usize::MAX,
            required: false,
            default: None,
            pii: false,
        }
    }

    /// Converts a value; none if it does not fit.
    ///
    /// An int accepts 3 and 3.0, not 3.5; a float accepts ints (rounded to nearest); a time accepts RFC 3339
    /// or seconds since 1970; a bool accepts bools; texts and categories accept texts.
    pub(crate) fn take(&self, value: Scalar<'_>, rows: &mut Rows) -> Option<Value> {
        self.fit(value).map(|taken| match taken {
            Accepted::Plain(value) => value,
            Accepted::Text(text) => Value::Text(rows.keep(text)),
        })
    }

    /// Converts a constant of the document.
    pub(crate) fn constant(&self, value: Scalar<'_>) -> Option<Constant> {
        self.fit(value).map(|taken| match taken {
            Accepted::Plain(value) => Constant::Plain(value),
            Accepted::Text(text) => Constant::Text(text.into()),
        })
    }

    fn fit<'a>(&self, value: Scalar<'a>) -> Option<Accepted<'a>> {
        let plain = match (self.kind, value) {
            (Kind::Bool, Scalar::Bool(value)) => Value::Bool(value),
            (Kind::Int, Scalar::Int(value)) => Value::Int(self.in_range(value as f64).map(|_| value)?),
            (Kind::Int, Scalar::Float(value)) => Value::Int(self.in_range(value).and_then(whole)?),
            (Kind::Float, Scalar::Int(value)) => Value::Float(self.in_range(value as f64)?),
            (Kind::Float, Scalar::Float(value)) => Value::Float(self.in_range(value)?),
            (Kind::Time, value) => Value::Time(self.time(value)?),
            (Kind::Category, Scalar::Text(text)) => Value::Category(self.place_of(text)?),
            (Kind::Text, Scalar::Text(text)) if text.len() <= self.length_max => {
                return Some(Accepted::Text(text));
            }
            _ => return None,
        };
        Some(Accepted::Plain(plain))
    }

    /// The index of a category value, or of its replacement.
    pub(crate) fn place_of(&self, text: &str) -> Option<u32> {
        self.places.get(text).copied().or(self.unknown)
    }

    /// Neither NaN nor infinite, and within the bounds.
    fn in_range(&self, value: f64) -> Option<f64> {
        let within = self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max);
        (within && value.is_finite()).then_some(value)
    }

    fn time(&self, value: Scalar<'_>) -> Option<i64> {
        let nanos = match value {
            Scalar::Text(text) => {
                i64::try_from(text.parse::<jiff::Timestamp>().ok()?.as_nanosecond()).ok()?
            }
            Scalar::Int(seconds) => seconds.checked_mul(1_000_000_000)?,
            Scalar::Float(seconds) => nanos_of(seconds)?,
            _ => return None,
        };
        self.in_range(seconds_of(nanos)).map(|_| nanos)
    }

    /// Describes the accepted values, for errors and `flyball plan`.
    pub(crate) fn allowed(&self) -> String {
        let mut text = match self.kind {
            Kind::Bool => "true or false".to_owned(),
            Kind::Int => "a whole number".to_owned(),
            Kind::Float => "a finite number".to_owned(),
            Kind::Text => format!("a text of at most {} bytes", self.length_max),
            Kind::Category if self.unknown.is_some() => "a text".to_owned(),
            Kind::Category => one_of(&self.values),
            Kind::Time => "a time as RFC 3339 (2026-01-31T12:00:00Z) or in seconds since 1970".to_owned(),
        };
        match (self.min, self.max) {
            (Some(min), Some(max)) => _ = write!(text, " from {min} to {max}"),
            (Some(min), None) => _ = write!(text, " not below {min}"),
            (None, Some(max)) => _ = write!(text, " not above {max}"),
            (None, None) => {}
        }
        text
    }
}

/// Formats `one of 'a', 'b' or 6 others`.
fn one_of(values: &[String]) -> String {
    let named: Vec<_> = values.iter().take(NAMED_VALUES).map(|value| format!("'{value}'")).collect();
    let more = values.len() - named.len();
    let rest = if more > 0 { format!(" or {more} others") } else { String::new() };
    format!("one of {}{rest}", named.join(", "))
}

/// Converts a whole-numbered float; none from 2^63 on.
fn whole(value: f64) -> Option<i64> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    (value.fract() == 0.0 && (-END..END).contains(&value)).then_some(value as i64)
}

/// Seconds to nanoseconds: whole seconds exactly, the rest rounded to nearest.
fn nanos_of(seconds: f64) -> Option<i64> {
    let whole_seconds = whole(seconds.trunc())?;
    let rest = (seconds.fract() * 1e9).round() as i64;
    whole_seconds.checked_mul(1_000_000_000)?.checked_add(rest)
}

/// Nanoseconds to seconds, with one rounding each for conversion and division.
pub(crate) fn seconds_of(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

/// A rejected value as JSON, truncated to a readable length.
pub(crate) fn shown(value: Scalar<'_>) -> Option<String> {
    Some(match value {
        Scalar::Null => return None,
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => value.to_string(),
        Scalar::Other(what) => what.to_owned(),
        Scalar::Text(text) => match text.char_indices().nth(SHOWN_CHARACTERS) {
            Some((cut, _)) => serde_json::Value::from(format!("{}…", &text[..cut])).to_string(),
            None => serde_json::Value::from(text).to_string(),
        },
    })
}
