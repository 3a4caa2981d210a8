//! Evaluates a checked expression over one row.
//!
//! Allocates nothing and never loops. `None` means undefined: a value is missing, or arithmetic has no finite
//! result.

use super::node::{Calc, Instant, Pick, Real, Relation, TextTest, TimePart, Truth, Whole, Words};
use crate::rows::Rows;
use crate::value::{TextRef, Value};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use std::cmp::Ordering;

/// The row and score that an expression is evaluated on.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) rows: &'a Rows,
    pub(super) row: usize,
    pub(super) score: Option<f64>,
}

/// A text of the row, or of the expression.
#[derive(Clone, Copy)]
pub(super) enum Said<'e> {
    Kept(TextRef),
    Literal(&'e str),
}

impl<'e> Said<'e> {
    fn text<'a>(self, rows: &'a Rows) -> &'a str
    where
        'e: 'a,
    {
        match self {
            Said::Kept(text) => rows.text(text),
            Said::Literal(text) => text,
        }
    }
}

impl At<'_> {
    fn value(&self, slot: usize) -> Value {
        self.rows.value(self.row, slot)
    }

    fn float(&self, slot: usize) -> Option<f64> {
        match self.value(slot) {
            Value::Float(value) if !value.is_nan() => Some(value),
            _ => None,
        }
    }

    fn category(&self, slot: usize) -> Option<u32> {
        match self.value(slot) {
            Value::Category(place) => Some(place),
            _ => None,
        }
    }

    fn score(&self) -> Option<f64> {
        self.score.filter(|score| !score.is_nan())
    }

    /// NaN counts as missing.
    fn has(&self, slot: usize) -> bool {
        match self.value(slot) {
            Value::Missing => false,
            Value::Float(value) => !value.is_nan(),
            _ => true,
        }
    }
}

impl Relation {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Relation::Equal => order.is_eq(),
            Relation::NotEqual => order.is_ne(),
            Relation::Less => order.is_lt(),
            Relation::AtMost => order.is_le(),
            Relation::More => order.is_gt(),
            Relation::AtLeast => order.is_ge(),
        }
    }
}

impl<T> Pick<T> {
    fn picked(&self, at: &At<'_>) -> Option<&T> {
        Some(if self.when.told(at)? { &self.yes } else { &self.no })
    }
}

impl Truth {
    pub(super) fn told(&self, at: &At<'_>) -> Option<bool> {
        Some(match self {
            Truth::Const(value) => *value,
            Truth::Slot(slot) => match at.value(*slot) {
                Value::Bool(value) => value,
                _ => return None,
            },
            Truth::Has(slot) => at.has(*slot),
            Truth::HasScore => at.score().is_some(),
            Truth::Not(of) => !of.told(at)?,
            Truth::Both(of) => return decided_by(false, of, at),
            Truth::Either(of) => return decided_by(true, of, at),
            Truth::Pick(pick) => return pick.picked(at)?.told(at),
            Truth::Bools(relation, of) => relation.holds(of.0.told(at)?.cmp(&of.1.told(at)?)),
            Truth::Ints(relation, of) => relation.holds(of.0.told(at)?.cmp(&of.1.told(at)?)),
            Truth::Floats(relation, of) => relation.holds(of.0.told(at)?.partial_cmp(&of.1.told(at)?)?),
            Truth::Mixed(relation, of) => relation.holds(compare(of.0.told(at)?, of.1.told(at)?)?),
            Truth::Texts(relation, of) => {
                let (left, right) = (of.0.told(at)?, of.1.told(at)?);
                relation.holds(left.text(at.rows).cmp(right.text(at.rows)))
            }
            Truth::Times(relation, of) => relation.holds(of.0.told(at)?.cmp(&of.1.told(at)?)),
            Truth::CategoryIs(slot, place) => at.category(*slot)? == *place,
            Truth::SameCategory(left, right) => at.category(*left)? == at.category(*right)?,
            Truth::CategoryIn(slot, places) => places.get(at.category(*slot)? as usize) == Some(&true),
            Truth::IntIn(of) => of.1.binary_search(&of.0.told(at)?).is_ok(),
            Truth::FloatIn(of) => of.1.contains(&of.0.told(at)?),
            Truth::TextIn(of) => {
                let text = of.0.told(at)?.text(at.rows);
                of.1.binary_search_by(|listed| (**listed).cmp(text)).is_ok()
            }
            Truth::TextTest(test, of) => {
                let (text, part) = (of.0.told(at)?, of.1.told(at)?);
                test.holds(text.text(at.rows), part.text(at.rows))
            }
            Truth::Matches(of) => of.1.is_match(of.0.told(at)?.text(at.rows)),
        })
    }
}

/// Kleene's `&&` (false decides) and `||` (true decides): one deciding side suffices.
fn decided_by(decides: bool, of: &(Truth, Truth), at: &At<'_>) -> Option<bool> {
    let left = of.0.told(at);
    if left == Some(decides) {
        return left;
    }
    let right = of.1.told(at);
    if right == Some(decides) { right } else { left.and(right) }
}

/// Exact, where a conversion would round.
fn compare(whole: i64, real: f64) -> Option<Ordering> {
    /// 2^63: every `i64` is below.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    Some(match real {
        real if real.is_nan() => return None,
        real if real >= BEYOND => Ordering::Less,
        real if real < -BEYOND => Ordering::Greater,
        real => whole.cmp(&(real.trunc() as i64)).then(0.0_f64.partial_cmp(&real.fract())?),
    })
}

impl TextTest {
    fn holds(self, text: &str, part: &str) -> bool {
        match self {
            TextTest::StartsWith => text.starts_with(part),
            TextTest::EndsWith => text.ends_with(part),
            TextTest::Contains => text.contains(part),
        }
    }
}

impl Whole {
    pub(super) fn told(&self, at: &At<'_>) -> Option<i64> {
        Some(match self {
            Whole::Const(value) => *value,
            Whole::Slot(slot) => match at.value(*slot) {
                Value::Int(value) => value,
                _ => return None,
            },
            Whole::Negate(of) => of.told(at)?.checked_neg()?,
            Whole::Calc(calc, of) => {
                let (left, right) = (of.0.told(at)?, of.1.told(at)?);
                match calc {
                    Calc::Add => left.checked_add(right)?,
                    Calc::Subtract => left.checked_sub(right)?,
                    Calc::Multiply => left.checked_mul(right)?,
                    Calc::Divide => left.checked_div(right)?,
                }
            }
            Whole::Modulo(of) => of.0.told(at)?.checked_rem(of.1.told(at)?)?,
            Whole::Pick(pick) => return pick.picked(at)?.told(at),
            Whole::Size(words) => words.told(at)?.text(at.rows).chars().count() as i64,
            Whole::Truncate(of) => whole(of.told(at)?)?,
            Whole::Part(part, of) => part.of(of.told(at)?),
        })
    }
}

/// Truncates; none beyond 64 bits.
pub(super) fn whole(real: f64) -> Option<i64> {
    let whole = real.trunc();
    // `i64::MAX as f64` is 2^63, one too many; the lower end is exact.
    (whole >= i64::MIN as f64 && whole < i64::MAX as f64).then_some(whole as i64)
}

impl Real {
    pub(super) fn told(&self, at: &At<'_>) -> Option<f64> {
        match self {
            Real::Const(value) => Some(*value),
            Real::Slot(slot) => at.float(*slot),
            Real::Score => at.score(),
            Real::Negate(of) => of.told(at).map(|value| -value),
            Real::Calc(calc, of) => {
                let (left, right) = (of.0.told(at)?, of.1.told(at)?);
                let value = match calc {
                    Calc::Add => left + right,
                    Calc::Subtract => left - right,
                    Calc::Multiply => left * right,
                    Calc::Divide => left / right,
                };
                value.is_finite().then_some(value)
            }
            Real::Pick(pick) => pick.picked(at)?.told(at),
            Real::FromInt(of) => of.told(at).map(|value| value as f64),
        }
    }
}

impl Words {
    pub(super) fn told(&self, at: &At<'_>) -> Option<Said<'_>> {
        Some(match self {
            Words::Const(text) => Said::Literal(text),
            Words::Slot(slot) => match at.value(*slot) {
                Value::Text(text) => Said::Kept(text),
                _ => return None,
            },
            Words::Category(slot, values) => Said::Literal(values.get(at.category(*slot)? as usize)?),
            Words::Pick(pick) => return pick.picked(at)?.told(at),
        })
    }
}

impl Instant {
    pub(super) fn told(&self, at: &At<'_>) -> Option<i64> {
        match self {
            Instant::Const(value) => Some(*value),
            Instant::Slot(slot) => match at.value(*slot) {
                Value::Time(value) => Some(value),
                _ => None,
            },
            Instant::Pick(pick) => pick.picked(at)?.told(at),
        }
    }
}

impl TimePart {
    fn of(self, nanoseconds: i64) -> i64 {
        let time = utc(nanoseconds);
        match self {
            TimePart::FullYear => time.year().into(),
            TimePart::Month => i64::from(time.month()) - 1,
            TimePart::Date => time.day().into(),
            TimePart::DayOfMonth => i64::from(time.day()) - 1,
            TimePart::DayOfWeek => time.weekday().to_sunday_zero_offset().into(),
            TimePart::DayOfYear => i64::from(time.day_of_year()) - 1,
            TimePart::Hours => time.hour().into(),
            TimePart::Minutes => time.minute().into(),
            TimePart::Seconds => time.second().into(),
            TimePart::Milliseconds => time.millisecond().into(),
        }
    }
}

fn utc(nanoseconds: i64) -> DateTime {
    let time =
        Timestamp::from_nanosecond(nanoseconds.into()).expect("64 bits of nanoseconds are within its years");
    Offset::UTC.to_datetime(time)
}
