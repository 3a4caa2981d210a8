//! Named fields on their way from a protocol into a decision.
//!
//! Each protocol parses its own bytes and passes on field by field. The decision's schema determines the
//! allowed values.

use serde::{Deserialize, Serialize};
use serde_json::Value;

crate::labelled! {
    /// The aggregation of a window's events.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum WindowOp {
        Count => "count",
        Sum => "sum",
        Mean => "mean",
        Distinct => "distinct",
    }
}

/// A field's value in a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
    /// A list, an object or a number beyond 64 bits: its type name. No field accepts it.
    Other(&'static str),
}

impl<'a> From<&'a Value> for Scalar<'a> {
    fn from(value: &'a Value) -> Scalar<'a> {
        match value {
            Value::Null => Scalar::Null,
            Value::Bool(value) => Scalar::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(value), _) => Scalar::Int(value),
                (None, Some(value)) => Scalar::Float(value),
                (None, None) => Scalar::Other("a number beyond 64 bits"),
            },
            Value::String(text) => Scalar::Text(text),
            Value::Array(_) => Scalar::Other("a list"),
            Value::Object(_) => Scalar::Other("an object"),
        }
    }
}

/// Receives the rows of a request. Faults stay with their row, so that the other rows go on.
pub trait RowSink {
    /// Starts the next row. `id` is the caller's own name for it.
    fn row(&mut self, id: Option<&str>);

    /// A field of the current row. Protocols pass on every field, including duplicates, which the sink
    /// detects.
    fn field(&mut self, name: &str, value: Scalar<'_>);

    /// Whether rows may choose their route. Only re-evaluated files may.
    fn accepts_routes(&self) -> bool {
        false
    }

    /// Sets the route of the current row.
    fn route(&mut self, _route: RowRoute<'_>) {}
}

/// A route to a decision, chosen by the row itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowRoute<'a> {
    /// The variant with this name, whatever its share.
    Variant(&'a str),
    /// The rules only, without a score.
    Rules,
}
