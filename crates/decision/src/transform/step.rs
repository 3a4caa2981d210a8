//! One compiled transform step: its inputs, its output, and its execution over a frame.

use super::Transforms;
use super::build::Register;
use super::coding::Coding;
use super::frame::{Cell, Frame, TextPool};
use super::map::Map;
use crate::document::DatePart;
use crate::field::seconds_of;
use crate::rows::Rows;
use crate::value::{TextRef, Value};
use jiff::{Timestamp, civil, tz::Offset};

/// `of` and `into` are columns of the kinds that the step reads and writes; `into` comes after `of`.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Number {
        slot: usize,
        into: usize,
    },
    Text {
        slot: usize,
        into: usize,
    },
    Time {
        slot: usize,
        into: usize,
    },
    Map {
        of: usize,
        into: usize,
        map: Map,
    },
    /// ((a * b) * c) …
    Product {
        of: Box<[usize]>,
        into: usize,
    },
    /// Whole numbers as texts, in decimal.
    Print {
        of: usize,
        into: usize,
    },
    ImputeText {
        of: usize,
        into: usize,
        constant: u32,
    },
    /// a|b|c; missing if one is.
    Join {
        of: Box<[usize]>,
        into: usize,
    },
    TextToNumber {
        of: usize,
        into: usize,
        read: TextToNumber,
    },
    OneHot {
        of: usize,
        into: usize,
        count: usize,
        places: Coding<u32>,
    },
    ImputeTime {
        of: usize,
        into: usize,
        nanos: i64,
    },
    TimeToNumber {
        of: usize,
        into: usize,
        read: TimeToNumber,
    },
}

/// From a text to a number.
#[derive(Clone, Debug)]
pub(super) enum TextToNumber {
    Missing,
    /// As Rust parses an f64; anything not finite is missing.
    Parse,
    /// The number in the table, else this one.
    Code(Coding<f64>, f64),
    /// MurmurHash3 (x86, 32 bits, seed 0) of the UTF-8 bytes, as an unsigned number modulo this.
    Hash(u32),
}

/// From a time to a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimeToNumber {
    Missing,
    /// Nanoseconds as f64 / 1e9.
    Seconds,
    Part(DatePart),
}

impl Step {
    pub(super) fn writes(&self) -> impl Iterator<Item = Register> + use<> {
        let (first, count) = match self {
            Step::OneHot { into, count, .. } => (Register::Number(*into), *count),
            Step::Number { into, .. }
            | Step::Map { into, .. }
            | Step::Product { into, .. }
            | Step::TextToNumber { into, .. }
            | Step::TimeToNumber { into, .. } => (Register::Number(*into), 1),
            Step::Text { into, .. }
            | Step::Print { into, .. }
            | Step::ImputeText { into, .. }
            | Step::Join { into, .. } => (Register::Text(*into), 1),
            Step::Time { into, .. } | Step::ImputeTime { into, .. } => (Register::Time(*into), 1),
        };
        (0..count).map(move |place| match first {
            Register::Number(first) => Register::Number(first + place),
            other => other,
        })
    }

    pub(super) fn reads(&self) -> Vec<Register> {
        match self {
            Step::Number { .. } | Step::Text { .. } | Step::Time { .. } => Vec::new(),
            Step::Map { of, .. } | Step::Print { of, .. } => vec![Register::Number(*of)],
            Step::Product { of, .. } => of.iter().map(|of| Register::Number(*of)).collect(),
            Step::Join { of, .. } => of.iter().map(|of| Register::Text(*of)).collect(),
            Step::ImputeText { of, .. } | Step::TextToNumber { of, .. } | Step::OneHot { of, .. } => {
                vec![Register::Text(*of)]
            }
            Step::ImputeTime { of, .. } | Step::TimeToNumber { of, .. } => vec![Register::Time(*of)],
        }
    }

    pub(super) fn run(&self, transforms: &Transforms, rows: &Rows, which: &[usize], frame: &mut Frame) {
        match self {
            Step::Number { slot, into } => {
                let values = which.iter().map(|&row| number(rows.value(row, *slot)));
                fill(frame.numbers_mut(*into), values);
            }
            Step::Text { slot, into } => {
                let values = which.iter().map(|&row| cell(rows.value(row, *slot), *slot));
                fill(frame.texts_mut(*into), values);
            }
            Step::Time { slot, into } => {
                let values = which.iter().map(|&row| time(rows.value(row, *slot)));
                fill(frame.times_mut(*into), values);
            }
            Step::Map { of, into, map } => {
                let (of, into) = frame.numbers_from(*of, *into);
                fill(into, of.iter().map(|&x| map.apply(x)));
            }
            Step::Product { of, into } => {
                frame.numbers_mut(*into).fill(1.0);
                for of in of {
                    let (of, into) = frame.numbers_from(*of, *into);
                    into.iter_mut().zip(of).for_each(|(product, x)| *product *= x);
                }
            }
            Step::Print { of, into } => print(frame, *of, *into, which.len()),
            Step::ImputeText { of, into, constant } => {
                for row in 0..which.len() {
                    let cell = frame.texts(*of)[row];
                    let given = if cell == Cell::Missing { Cell::Constant(*constant) } else { cell };
                    frame.texts_mut(*into)[row] = given;
                }
            }
            Step::Join { of, into } => {
                for row in 0..which.len() {
                    let joined = join(transforms, rows, frame, of, row);
                    frame.texts_mut(*into)[row] = joined;
                }
            }
            Step::TextToNumber { of, into, read } => {
                for row in 0..which.len() {
                    let words = TextPool::new(transforms, rows, frame);
                    let number = read.number(frame.texts(*of)[row], &words);
                    frame.numbers_mut(*into)[row] = number;
                }
            }
            Step::OneHot { of, into, count, places } => {
                (0..*count).for_each(|place| frame.numbers_mut(into + place).fill(0.0));
                for row in 0..which.len() {
                    let words = TextPool::new(transforms, rows, frame);
                    if let Some(Some(place)) = places.get(frame.texts(*of)[row], &words) {
                        frame.numbers_mut(into + place as usize)[row] = 1.0;
                    }
                }
            }
            Step::ImputeTime { of, into, nanos } => {
                for row in 0..which.len() {
                    frame.times_mut(*into)[row] = frame.times(*of)[row].or(Some(*nanos));
                }
            }
            Step::TimeToNumber { of, into, read } => {
                for row in 0..which.len() {
                    let number = read.number(frame.times(*of)[row]);
                    frame.numbers_mut(*into)[row] = number;
                }
            }
        }
    }
}

fn fill<T>(column: &mut [T], values: impl Iterator<Item = T>) {
    column.iter_mut().zip(values).for_each(|(place, value)| *place = value);
}

fn number(value: Value) -> f64 {
    match value {
        Value::Bool(value) => f64::from(u8::from(value)),
        Value::Int(value) => value as f64,
        Value::Float(value) => value,
        Value::Missing | Value::Text(_) | Value::Category(_) | Value::Time(_) => f64::NAN,
    }
}

fn cell(value: Value, slot: usize) -> Cell {
    match value {
        Value::Text(text) => Cell::Row(text),
        Value::Category(place) => Cell::Category(slot as u32, place),
        _ => Cell::Missing,
    }
}

fn time(value: Value) -> Option<i64> {
    match value {
        Value::Time(nanos) => Some(nanos),
        _ => None,
    }
}

fn print(frame: &mut Frame, of: usize, into: usize, rows: usize) {
    let mut buffer = itoa::Buffer::new();
    for row in 0..rows {
        let x = frame.numbers(of)[row];
        let cell = if x.is_nan() {
            Cell::Missing
        } else {
            let text = buffer.format(x as i64);
            let start = frame.made.len() as u32;
            frame.made.push_str(text);
            Cell::Made(TextRef { start, length: text.len() as u32 })
        };
        frame.texts_mut(into)[row] = cell;
    }
}

fn join(transforms: &Transforms, rows: &Rows, frame: &mut Frame, of: &[usize], row: usize) -> Cell {
    // Taken out, so that earlier texts can be read while new ones are made.
    let mut made = std::mem::take(&mut frame.made);
    let start = made.len();
    for (place, of) in of.iter().enumerate() {
        if place > 0 {
            made.push('|');
        }
        match frame.texts(*of)[row] {
            Cell::Made(TextRef { start, length }) => {
                made.extend_from_within(start as usize..(start + length) as usize);
            }
            cell => match (TextPool { transforms, rows, made: "" }).text(cell) {
                Some(text) => made.push_str(text),
                None => {
                    made.truncate(start);
                    frame.made = made;
                    return Cell::Missing;
                }
            },
        }
    }
    let length = (made.len() - start) as u32;
    frame.made = made;
    Cell::Made(TextRef { start: start as u32, length })
}

impl TextToNumber {
    fn number(&self, cell: Cell, words: &TextPool<'_>) -> f64 {
        let number = match self {
            TextToNumber::Missing => Some(f64::from(u8::from(cell == Cell::Missing))),
            TextToNumber::Parse => words.text(cell).and_then(parse),
            TextToNumber::Code(codes, other) => codes.get(cell, words).map(|code| code.unwrap_or(*other)),
            TextToNumber::Hash(buckets) => words.text(cell).map(|text| f64::from(hash(text) % buckets)),
        };
        number.unwrap_or(f64::NAN)
    }
}

fn parse(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

pub(super) fn hash(text: &str) -> u32 {
    murmur3::murmur3_32(&mut text.as_bytes(), 0).expect("reading from memory cannot fail")
}

impl TimeToNumber {
    fn number(self, nanos: Option<i64>) -> f64 {
        let number = match self {
            TimeToNumber::Missing => Some(f64::from(u8::from(nanos.is_none()))),
            TimeToNumber::Seconds => nanos.map(seconds_of),
            TimeToNumber::Part(part) => nanos.and_then(utc).map(|at| time_part(part, at)),
        };
        number.unwrap_or(f64::NAN)
    }
}

fn utc(nanos: i64) -> Option<civil::DateTime> {
    Timestamp::from_nanosecond(i128::from(nanos)).ok().map(|time| Offset::UTC.to_datetime(time))
}

fn time_part(part: DatePart, at: civil::DateTime) -> f64 {
    let weekday = at.weekday().to_monday_zero_offset();
    f64::from(match part {
        DatePart::Year => at.year(),
        DatePart::Month => at.month().into(),
        DatePart::Day => at.day().into(),
        DatePart::Hour => at.hour().into(),
        DatePart::Minute => at.minute().into(),
        DatePart::Weekday => weekday.into(),
        DatePart::Weekend => (weekday >= 5).into(),
    })
}
