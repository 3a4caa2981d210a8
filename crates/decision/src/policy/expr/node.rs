//! Typed expression nodes: one enum for each type, so that ill-typed expressions cannot be built.
//!
//! Knows neither the source text nor the evaluation.

use regex::Regex;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) enum Typed {
    Bool(BoolExpr),
    Int(IntExpr),
    Float(FloatExpr),
    Text(TextExpr),
    Time(TimeExpr),
}

/// `when ? yes : no`.
#[derive(Clone, Debug)]
pub(super) struct Conditional<T> {
    pub(super) when: BoolExpr,
    pub(super) yes: T,
    pub(super) no: T,
}

/// A boolean expression. Slots are indexes in a row.
#[derive(Clone, Debug)]
pub(super) enum BoolExpr {
    Const(bool),
    Slot(usize),
    Has(usize),
    HasScore,
    Not(Box<BoolExpr>),
    Both(Box<(BoolExpr, BoolExpr)>),
    Either(Box<(BoolExpr, BoolExpr)>),
    Conditional(Box<Conditional<BoolExpr>>),
    Bools(Relation, Box<(BoolExpr, BoolExpr)>),
    Ints(Relation, Box<(IntExpr, IntExpr)>),
    Floats(Relation, Box<(FloatExpr, FloatExpr)>),
    Mixed(Relation, Box<(IntExpr, FloatExpr)>),
    Texts(Relation, Box<(TextExpr, TextExpr)>),
    Times(Relation, Box<(TimeExpr, TimeExpr)>),
    CategoryIs(usize, u32),
    /// Two slots with the same list of values.
    SameCategory(usize, usize),
    /// By index among the values.
    CategoryIn(usize, Box<[bool]>),
    /// The lists are sorted.
    IntIn(Box<(IntExpr, Vec<i64>)>),
    FloatIn(Box<(FloatExpr, Vec<f64>)>),
    TextIn(Box<(TextExpr, Vec<Arc<str>>)>),
    TextTest(TextTest, Box<(TextExpr, TextExpr)>),
    Matches(Box<(TextExpr, Regex)>),
}

#[derive(Clone, Debug)]
pub(super) enum IntExpr {
    Const(i64),
    Slot(usize),
    Negate(Box<IntExpr>),
    ArithmeticOp(ArithmeticOp, Box<(IntExpr, IntExpr)>),
    Modulo(Box<(IntExpr, IntExpr)>),
    Conditional(Box<Conditional<IntExpr>>),
    /// In characters.
    Size(TextExpr),
    /// Towards zero.
    Truncate(Box<FloatExpr>),
    Part(TimePart, TimeExpr),
}

#[derive(Clone, Debug)]
pub(super) enum FloatExpr {
    Const(f64),
    Slot(usize),
    Score,
    Negate(Box<FloatExpr>),
    ArithmeticOp(ArithmeticOp, Box<(FloatExpr, FloatExpr)>),
    Conditional(Box<Conditional<FloatExpr>>),
    FromInt(Box<IntExpr>),
}

#[derive(Clone, Debug)]
pub(super) enum TextExpr {
    Const(Arc<str>),
    Slot(usize),
    Category(usize, Arc<[String]>),
    Conditional(Box<Conditional<TextExpr>>),
}

/// Nanoseconds since 1970.
#[derive(Clone, Debug)]
pub(super) enum TimeExpr {
    Const(i64),
    Slot(usize),
    Conditional(Box<Conditional<TimeExpr>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Relation {
    /// The relation with its sides exchanged.
    pub(super) fn flipped(self) -> Relation {
        match self {
            Relation::Less => Relation::More,
            Relation::AtMost => Relation::AtLeast,
            Relation::More => Relation::Less,
            Relation::AtLeast => Relation::AtMost,
            same => same,
        }
    }

    pub(super) fn is_order(self) -> bool {
        !matches!(self, Relation::Equal | Relation::NotEqual)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextTest {
    StartsWith,
    EndsWith,
    Contains,
}

/// CEL's time parts in UTC.
///
/// Months, days of the month, of the week (from Sunday) and of the year count from 0; `Date` is the day of
/// the month from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimePart {
    FullYear,
    Month,
    Date,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}
