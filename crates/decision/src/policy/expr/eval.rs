//! Evaluates a checked expression over one row.
//!
//! Allocates nothing and never loops. `None` means undefined: a value is missing, or arithmetic has no finite
//! result.

use super::node::{
    ArithmeticOp, BoolExpr, Conditional, FloatExpr, IntExpr, Relation, TextExpr, TextTest, TimeExpr, TimePart,
};
use crate::rows::Rows;
use crate::value::{TextRef, Value};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use std::cmp::Ordering;

/// The row and score that an expression is evaluated on.
#[derive(Clone, Copy)]
pub(super) struct EvalContext<'a> {
    pub(super) rows: &'a Rows,
    pub(super) row: usize,
    pub(super) score: Option<f64>,
}

/// A text of the row, or of the expression.
#[derive(Clone, Copy)]
pub(super) enum TextValue<'e> {
    Kept(TextRef),
    Literal(&'e str),
}

impl<'e> TextValue<'e> {
    fn text<'a>(self, rows: &'a Rows) -> &'a str
    where
        'e: 'a,
    {
        match self {
            TextValue::Kept(text) => rows.text(text),
            TextValue::Literal(text) => text,
        }
    }
}

impl EvalContext<'_> {
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

impl<T> Conditional<T> {
    fn picked(&self, at: &EvalContext<'_>) -> Option<&T> {
        Some(if self.when.eval(at)? { &self.yes } else { &self.no })
    }
}

impl BoolExpr {
    pub(super) fn eval(&self, at: &EvalContext<'_>) -> Option<bool> {
        Some(match self {
            BoolExpr::Const(value) => *value,
            BoolExpr::Slot(slot) => match at.value(*slot) {
                Value::Bool(value) => value,
                _ => return None,
            },
            BoolExpr::Has(slot) => at.has(*slot),
            BoolExpr::HasScore => at.score().is_some(),
            BoolExpr::Not(of) => !of.eval(at)?,
            BoolExpr::Both(of) => return decided_by(false, of, at),
            BoolExpr::Either(of) => return decided_by(true, of, at),
            BoolExpr::Conditional(pick) => return pick.picked(at)?.eval(at),
            BoolExpr::Bools(relation, of) => relation.holds(of.0.eval(at)?.cmp(&of.1.eval(at)?)),
            BoolExpr::Ints(relation, of) => relation.holds(of.0.eval(at)?.cmp(&of.1.eval(at)?)),
            BoolExpr::Floats(relation, of) => relation.holds(of.0.eval(at)?.partial_cmp(&of.1.eval(at)?)?),
            BoolExpr::Mixed(relation, of) => relation.holds(compare(of.0.eval(at)?, of.1.eval(at)?)?),
            BoolExpr::Texts(relation, of) => {
                let (left, right) = (of.0.eval(at)?, of.1.eval(at)?);
                relation.holds(left.text(at.rows).cmp(right.text(at.rows)))
            }
            BoolExpr::Times(relation, of) => relation.holds(of.0.eval(at)?.cmp(&of.1.eval(at)?)),
            BoolExpr::CategoryIs(slot, place) => at.category(*slot)? == *place,
            BoolExpr::SameCategory(left, right) => at.category(*left)? == at.category(*right)?,
            BoolExpr::CategoryIn(slot, places) => places.get(at.category(*slot)? as usize) == Some(&true),
            BoolExpr::IntIn(of) => of.1.binary_search(&of.0.eval(at)?).is_ok(),
            BoolExpr::FloatIn(of) => of.1.contains(&of.0.eval(at)?),
            BoolExpr::TextIn(of) => {
                let text = of.0.eval(at)?.text(at.rows);
                of.1.binary_search_by(|listed| (**listed).cmp(text)).is_ok()
            }
            BoolExpr::TextTest(test, of) => {
                let (text, part) = (of.0.eval(at)?, of.1.eval(at)?);
                test.holds(text.text(at.rows), part.text(at.rows))
            }
            BoolExpr::Matches(of) => of.1.is_match(of.0.eval(at)?.text(at.rows)),
        })
    }
}

/// Kleene's `&&` (false decides) and `||` (true decides): one deciding side suffices.
fn decided_by(decides: bool, of: &(BoolExpr, BoolExpr), at: &EvalContext<'_>) -> Option<bool> {
    let left = of.0.eval(at);
    if left == Some(decides) {
        return left;
    }
    let right = of.1.eval(at);
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

impl IntExpr {
    pub(super) fn eval(&self, at: &EvalContext<'_>) -> Option<i64> {
        Some(match self {
            IntExpr::Const(value) => *value,
            IntExpr::Slot(slot) => match at.value(*slot) {
                Value::Int(value) => value,
                _ => return None,
            },
            IntExpr::Negate(of) => of.eval(at)?.checked_neg()?,
            IntExpr::ArithmeticOp(calc, of) => {
                let (left, right) = (of.0.eval(at)?, of.1.eval(at)?);
                match calc {
                    ArithmeticOp::Add => left.checked_add(right)?,
                    ArithmeticOp::Subtract => left.checked_sub(right)?,
                    ArithmeticOp::Multiply => left.checked_mul(right)?,
                    ArithmeticOp::Divide => left.checked_div(right)?,
                }
            }
            IntExpr::Modulo(of) => of.0.eval(at)?.checked_rem(of.1.eval(at)?)?,
            IntExpr::Conditional(pick) => return pick.picked(at)?.eval(at),
            IntExpr::Size(words) => words.eval(at)?.text(at.rows).chars().count() as i64,
            IntExpr::Truncate(of) => whole(of.eval(at)?)?,
            IntExpr::Part(part, of) => part.of(of.eval(at)?),
        })
    }
}

/// Truncates; none beyond 64 bits.
pub(super) fn whole(real: f64) -> Option<i64> {
    let whole = real.trunc();
    // `i64::MAX as f64` is 2^63, one too many; the lower end is exact.
    (whole >= i64::MIN as f64 && whole < i64::MAX as f64).then_some(whole as i64)
}

impl FloatExpr {
    pub(super) fn eval(&self, at: &EvalContext<'_>) -> Option<f64> {
        match self {
            FloatExpr::Const(value) => Some(*value),
            FloatExpr::Slot(slot) => at.float(*slot),
            FloatExpr::Score => at.score(),
            FloatExpr::Negate(of) => of.eval(at).map(|value| -value),
            FloatExpr::ArithmeticOp(calc, of) => {
                let (left, right) = (of.0.eval(at)?, of.1.eval(at)?);
                let value = match calc {
                    ArithmeticOp::Add => left + right,
                    ArithmeticOp::Subtract => left - right,
                    ArithmeticOp::Multiply => left * right,
                    ArithmeticOp::Divide => left / right,
                };
                value.is_finite().then_some(value)
            }
            FloatExpr::Conditional(pick) => pick.picked(at)?.eval(at),
            FloatExpr::FromInt(of) => of.eval(at).map(|value| value as f64),
        }
    }
}

impl TextExpr {
    pub(super) fn eval(&self, at: &EvalContext<'_>) -> Option<TextValue<'_>> {
        Some(match self {
            TextExpr::Const(text) => TextValue::Literal(text),
            TextExpr::Slot(slot) => match at.value(*slot) {
                Value::Text(text) => TextValue::Kept(text),
                _ => return None,
            },
            TextExpr::Category(slot, values) => TextValue::Literal(values.get(at.category(*slot)? as usize)?),
            TextExpr::Conditional(pick) => return pick.picked(at)?.eval(at),
        })
    }
}

impl TimeExpr {
    pub(super) fn eval(&self, at: &EvalContext<'_>) -> Option<i64> {
        match self {
            TimeExpr::Const(value) => Some(*value),
            TimeExpr::Slot(slot) => match at.value(*slot) {
                Value::Time(value) => Some(value),
                _ => None,
            },
            TimeExpr::Conditional(pick) => pick.picked(at)?.eval(at),
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
