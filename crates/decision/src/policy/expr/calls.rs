//! The functions of the language and `in`: argument and result types.

use super::check::{ALLOWED, Checked, Checker, a};
use super::eval::whole;
use super::node::{BoolExpr, FloatExpr, IntExpr, TextExpr, TextTest, TimeExpr, TimePart, Typed};
use crate::nearest::did_you_mean;
use cel::common::ast::{Expr as Tree, IdedExpr};
use regex::{Regex, RegexBuilder};
use std::sync::Arc;

/// Maximum size of a compiled pattern; larger ones would also be slow.
const PATTERN_BYTES_MAX: usize = 1 << 20;

const FUNCTIONS: [&str; 5] = ["has", "size", "int", "double", "timestamp"];
const TEXT_TESTS: [(&str, TextTest); 3] = [
    ("startsWith", TextTest::StartsWith),
    ("endsWith", TextTest::EndsWith),
    ("contains", TextTest::Contains),
];
const TIME_PARTS: [(&str, TimePart); 10] = [
    ("getFullYear", TimePart::FullYear),
    ("getMonth", TimePart::Month),
    ("getDate", TimePart::Date),
    ("getDayOfMonth", TimePart::DayOfMonth),
    ("getDayOfWeek", TimePart::DayOfWeek),
    ("getDayOfYear", TimePart::DayOfYear),
    ("getHours", TimePart::Hours),
    ("getMinutes", TimePart::Minutes),
    ("getSeconds", TimePart::Seconds),
    ("getMilliseconds", TimePart::Milliseconds),
];

impl Checker<'_> {
    pub(super) fn function(&self, tree: &IdedExpr, name: &str, arguments: &[IdedExpr]) -> Checked<Typed> {
        match (name, arguments) {
            ("has", [of]) => self.has(of),
            ("size", [of]) => Ok(Typed::Int(IntExpr::Size(self.words(of, "size")?))),
            ("int", [of]) => match self.typed(of)? {
                Typed::Int(of) => Ok(Typed::Int(of)),
                Typed::Float(of) => Ok(Typed::Int(IntExpr::Truncate(Box::new(of)))),
                other => self.fault(of, format!("int() takes a number, not {}", a(&other))),
            },
            ("double", [of]) => match self.typed(of)? {
                Typed::Int(of) => Ok(Typed::Float(FloatExpr::FromInt(Box::new(of)))),
                Typed::Float(of) => Ok(Typed::Float(of)),
                other => self.fault(of, format!("double() takes a number, not {}", a(&other))),
            },
            ("timestamp", [of]) => self.timestamp(of),
            (name, _) if FUNCTIONS.contains(&name) => self.fault(tree, format!("{name}() takes one value")),
            (name, _) => {
                let near = did_you_mean(name, FUNCTIONS.into_iter());
                self.fault(tree, format!("{name} is not part of the language{near}; {ALLOWED}"))
            }
        }
    }

    pub(super) fn method(
        &self,
        tree: &IdedExpr,
        name: &str,
        target: &IdedExpr,
        arguments: &[IdedExpr],
    ) -> Checked<Typed> {
        if let Some((_, test)) = TEXT_TESTS.iter().find(|(known, _)| *known == name) {
            let [part] = arguments else { return self.fault(tree, format!("{name}() takes one text")) };
            let both = (self.words(target, name)?, self.words(part, name)?);
            return Ok(Typed::Bool(BoolExpr::TextTest(*test, Box::new(both))));
        }
        if let Some((_, part)) = TIME_PARTS.iter().find(|(known, _)| *known == name) {
            if !arguments.is_empty() {
                return self.fault(tree, format!("{name}() takes no argument: times are in UTC"));
            }
            return match self.typed(target)? {
                Typed::Time(of) => Ok(Typed::Int(IntExpr::Part(*part, of))),
                other => self.fault(target, format!("{name}() is for times; this is {}", a(&other))),
            };
        }
        match (name, arguments) {
            ("matches", [pattern]) => self.matches(target, pattern),
            ("size", []) => Ok(Typed::Int(IntExpr::Size(self.words(target, "size")?))),
            _ => {
                let known =
                    TEXT_TESTS.iter().map(|(name, _)| *name).chain(TIME_PARTS.iter().map(|(name, _)| *name));
                let near = did_you_mean(name, known.chain(["matches", "size"]));
                self.fault(tree, format!("{name} is not part of the language{near}; {ALLOWED}"))
            }
        }
    }

    fn words(&self, tree: &IdedExpr, function: &str) -> Checked<TextExpr> {
        match self.typed(tree)? {
            Typed::Text(words) => Ok(words),
            other => self.fault(tree, format!("{function}() takes texts, not {}", a(&other))),
        }
    }

    fn has(&self, of: &IdedExpr) -> Checked<Typed> {
        match &of.expr {
            Tree::Ident(name) if self.score && name == "score" => Ok(Typed::Bool(BoolExpr::HasScore)),
            Tree::Ident(name) => Ok(Typed::Bool(BoolExpr::Has(self.known(of, name)?.slot))),
            _ => self.fault(of, "has() takes the name of a field or feature"),
        }
    }

    fn matches(&self, target: &IdedExpr, pattern: &IdedExpr) -> Checked<Typed> {
        let words = self.words(target, "matches")?;
        let Typed::Text(TextExpr::Const(text)) = self.typed(pattern)? else {
            return self.fault(pattern, "matches() takes a pattern in quotes: x.matches('^4[0-9]{3}')");
        };
        match compiled(&text) {
            Ok(regex) => Ok(Typed::Bool(BoolExpr::Matches(Box::new((words, regex))))),
            Err(why) => self.fault(pattern, format!("'{text}' is not a valid pattern: {why}")),
        }
    }

    fn timestamp(&self, of: &IdedExpr) -> Checked<Typed> {
        let wanted =
            "timestamp() takes a time in quotes, as '2026-01-31T00:00:00Z', between the years 1678 and 2261";
        let Typed::Text(TextExpr::Const(text)) = self.typed(of)? else { return self.fault(of, wanted) };
        let time = text.parse::<jiff::Timestamp>().ok();
        match time.and_then(|time| i64::try_from(time.as_nanosecond()).ok()) {
            Some(nanoseconds) => Ok(Typed::Time(TimeExpr::Const(nanoseconds))),
            None => self.fault(of, wanted),
        }
    }

    pub(super) fn within(&self, tree: &IdedExpr, of: &IdedExpr, list: &IdedExpr) -> Checked<Typed> {
        let elements = match &list.expr {
            Tree::List(list) if !list.elements.is_empty() && list.optional_indices.is_empty() => {
                &list.elements
            }
            _ => return self.fault(list, "in needs a list that is not empty: x in ['a', 'b']"),
        };
        Ok(Typed::Bool(match self.typed(of)? {
            Typed::Int(of) => {
                let mut list = self.each(elements, "an int", int_literal)?;
                list.sort_unstable();
                BoolExpr::IntIn(Box::new((of, list)))
            }
            Typed::Float(of) => {
                BoolExpr::FloatIn(Box::new((of, self.each(elements, "a number", float_literal)?)))
            }
            Typed::Text(TextExpr::Category(slot, values)) => {
                let mut places = vec![false; values.len()];
                for (element, text) in elements.iter().zip(self.each(elements, "a text", text_literal)?) {
                    places[self.place(element, &values, &text)?] = true;
                }
                BoolExpr::CategoryIn(slot, places.into())
            }
            Typed::Text(of) => {
                let mut list = self.each(elements, "a text", text_literal)?;
                list.sort_unstable();
                BoolExpr::TextIn(Box::new((of, list)))
            }
            other => return self.fault(tree, format!("in is for numbers and texts; this is {}", a(&other))),
        }))
    }

    fn each<T>(&self, list: &[IdedExpr], wanted: &str, take: fn(Typed) -> Option<T>) -> Checked<Vec<T>> {
        let taken = |element| match take(self.typed(element)?) {
            Some(value) => Ok(value),
            None => self.fault(element, format!("each item of this list must be {wanted} literal")),
        };
        list.iter().map(taken).collect()
    }
}

/// A whole float is an int: they are equal in CEL too.
fn int_literal(typed: Typed) -> Option<i64> {
    match typed {
        Typed::Int(IntExpr::Const(value)) => Some(value),
        Typed::Float(FloatExpr::Const(value)) if value.fract() == 0.0 => whole(value),
        _ => None,
    }
}

fn float_literal(typed: Typed) -> Option<f64> {
    match typed {
        Typed::Int(IntExpr::Const(value)) => Some(value as f64),
        Typed::Float(FloatExpr::Const(value)) => Some(value),
        _ => None,
    }
}

fn text_literal(typed: Typed) -> Option<Arc<str>> {
    match typed {
        Typed::Text(TextExpr::Const(text)) => Some(text),
        _ => None,
    }
}

fn compiled(pattern: &str) -> Result<Regex, String> {
    let regex =
        RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX).build();
    // The message has several lines; the last one names the error.
    regex.map_err(|error| {
        error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}
