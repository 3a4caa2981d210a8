//! Named fields on their way from a protocol into a decision. Each protocol reads its own bytes and hands over field by
//! field; what a field may hold is the decision's to say.

use serde::{Deserialize, Serialize};

/// What a window makes of the events in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowOp {
    Count,
    Sum,
    Mean,
    Distinct,
}

impl WindowOp {
    pub const fn label(self) -> &'static str {
        match self {
            WindowOp::Count => "count",
            WindowOp::Sum => "sum",
            WindowOp::Mean => "mean",
            WindowOp::Distinct => "distinct",
        }
    }
}

/// A field's value as it stands in a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
    /// A list, an object, a number beyond 64 bits: named, and no field takes it.
    Other(&'static str),
}

/// Who takes the rows of a request. Faults are kept with their row: the others go on.
pub trait TakeRows {
    /// Begins the next row. `id` is the caller's own name for it.
    fn row(&mut self, id: Option<&str>);

    /// A field of the row that was begun last. The protocols hand over every field that they meet: that a name comes twice
    /// is for the taker to see, which has a place for each.
    fn field(&mut self, name: &str, value: Scalar<'_>);

    /// Whether rows may say which way they go: those of a file that is decided again may.
    fn takes_ways(&self) -> bool {
        false
    }

    /// The way of the row that was begun last.
    fn way(&mut self, _way: Way<'_>) {}
}

/// A way to a decision, chosen by the row itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way<'a> {
    /// The variant of this name, whatever its share.
    Variant(&'a str),
    /// The rules alone, without a score.
    Rules,
}
