//! Typed expression nodes: one enum for each type, so that ill-typed expressions cannot be built.
//!
//! Knows neither the source text nor the evaluation.

use regex::Regex;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) enum Typed {
    Bool(Truth),
    Int(Whole),
    Float(Real),
    Text(Words),
    Time(Instant),
}

/// `when ? yes : no`.
#[derive(Clone, Debug)]
pub(super) struct Pick<T> {
    pub(super) when: Truth,
    pub(super) yes: T,
    pub(super) no: T,
}

/// A boolean expression. Slots are indexes in a row.
#[derive(Clone, Debug)]
pub(super) enum Truth {
    Const(bool),
    Slot(usize),
    Has(usize),
    HasScore,
    Not(Box<Truth>),
    Both(Box<(Truth, Truth)>),
    Either(Box<(Truth, Truth)>),
    Pick(Box<Pick<Truth>>),
    Bools(Relation, Box<(Truth, Truth)>),
    Ints(Relation, Box<(Whole, Whole)>),
    Floats(Relation, Box<(Real, Real)>),
    Mixed(Relation, Box<(Whole, Real)>),
    Texts(Relation, Box<(Words, Words)>),
    Times(Relation, Box<(Instant, Instant)>),
    CategoryIs(usize, u32),
    /// Two slots with the same list of values.
    SameCategory(usize, usize),
    /// By index among the values.
    CategoryIn(usize, Box<[bool]>),
    /// The lists are sorted.
    IntIn(Box<(Whole, Vec<i64>)>),
    FloatIn(Box<(Real, Vec<f64>)>),
    TextIn(Box<(Words, Vec<Arc<str>>)>),
    TextTest(TextTest, Box<(Words, Words)>),
    Matches(Box<(Words, Regex)>),
}

#[derive(Clone, Debug)]
pub(super) enum Whole {
    Const(i64),
    Slot(usize),
    Negate(Box<Whole>),
    Calc(Calc, Box<(Whole, Whole)>),
    Modulo(Box<(Whole, Whole)>),
    Pick(Box<Pick<Whole>>),
    /// In characters.
    Size(Words),
    /// Towards zero.
    Truncate(Box<Real>),
    Part(TimePart, Instant),
}

#[derive(Clone, Debug)]
pub(super) enum Real {
    Const(f64),
    Slot(usize),
    Score,
    Negate(Box<Real>),
    Calc(Calc, Box<(Real, Real)>),
    Pick(Box<Pick<Real>>),
    FromInt(Box<Whole>),
}

#[derive(Clone, Debug)]
pub(super) enum Words {
    Const(Arc<str>),
    Slot(usize),
    Category(usize, Arc<[String]>),
    Pick(Box<Pick<Words>>),
}

/// Nanoseconds since 1970.
#[derive(Clone, Debug)]
pub(super) enum Instant {
    Const(i64),
    Slot(usize),
    Pick(Box<Pick<Instant>>),
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
pub(super) enum Calc {
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
