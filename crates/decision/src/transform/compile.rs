//! Compiles each transform of the document into steps; reports faults at the author's path.

use super::build::{Build, Column, Register};
use super::map::Map;
use super::step::{Step, TextToNumber, TimeToNumber};
use super::{codes, numbers};
use crate::document::{CastTo, DatePart, TransformDocument as T};
use crate::field::{Constant, Field};
use crate::value::{Kind, Value};
use flyball_core::Scalar;
use serde_json::Value as Json;

/// `path` is the transform's: `transforms[2]`.
pub(super) fn transform(document: &T, path: &str, build: &mut Build<'_>) {
    match document {
        T::Impute { of, values, indicator } => impute(path, of, values, *indicator, build),
        T::Cast { of, to } => cast(path, of, *to, build),
        T::Scale { of, factor, offset } => numbers::scale(path, of, factor, offset, build),
        T::Standardize { of, mean, scale } => numbers::standardize(path, of, mean, scale, build),
        T::Log { of } => numbers::each(path, of, &Map::Log, build),
        T::Log1p { of } => numbers::each(path, of, &Map::Log1p, build),
        T::Clip { of, min, max } => numbers::clip(path, of, *min, *max, build),
        T::Bucket { of, edges } => numbers::bucket(path, of, edges, build),
        T::OneHot { of, values } => codes::one_hot(path, of, values, build),
        T::Ordinal { of, values, unknown } => codes::ordinal(path, of, values, *unknown, build),
        T::Hash { of, buckets } => codes::hash(path, of, *buckets, build),
        T::Encode { of, maps, default } => codes::encode(path, of, maps, default, build),
        T::Cross { of, into } => cross(path, of, into, build),
        T::DateParts { of, parts } => date_parts(path, of, parts, build),
    }
}

/// Maximum digits and sign of a whole number.
const PRINTED_BYTES_MAX: usize = 20;

fn impute(path: &str, of: &[String], values: &[Json], indicator: bool, build: &mut Build<'_>) {
    let sound = build.as_long(path, "values", values.len(), of.len());
    for (place, name, column) in build.columns(path, of) {
        if !sound || !build.room(path, 1 + usize::from(indicator)) {
            continue;
        }
        let value = &values[place];
        let Some((imputed, missing)) = imputed(&column, value, indicator, build) else {
            let allowed = match column.register {
                Register::Number(_) => "a finite number",
                Register::Text(_) => "a text",
                Register::Time(_) => "a time as RFC 3339 or in seconds since 1970",
            };
            build.faults.add(format!("{path}.values[{place}]"), value.clone(), allowed);
            continue;
        };
        if let Some(register) = missing {
            let missing = Column { register, whole: true, may_miss: false, category: None, ..column.clone() };
            build.add(path, format!("{name}=missing"), missing);
        }
        build.replace(&name, Column { may_miss: false, ..imputed });
    }
}

/// The column with `value` where it was missing, and the missing indicator.
fn imputed(
    column: &Column,
    value: &Json,
    indicator: bool,
    build: &mut Build<'_>,
) -> Option<(Column, Option<Register>)> {
    Some(match (column.register, Scalar::from(value)) {
        (Register::Number(of), value @ (Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_))) => {
            let number = match value {
                Scalar::Bool(value) => f64::from(u8::from(value)),
                Scalar::Int(value) => value as f64,
                Scalar::Float(value) => value,
                _ => return None,
            };
            let missing = indicator.then(|| build.map(of, Map::Missing));
            let register = build.map(of, Map::Impute(number));
            let whole = column.whole && number.fract() == 0.0;
            (Column { register, whole, ..column.clone() }, missing)
        }
        (Register::Text(of), Scalar::Text(text)) => {
            let missing = indicator.then(|| build.read(of, TextToNumber::Missing));
            let (into, constant) = (build.new_text(), build.constant(text));
            build.push(Step::ImputeText { of, into, constant });
            let (register, bytes_max) = (Register::Text(into), column.bytes_max.max(text.len()));
            (Column { register, bytes_max, ..column.clone() }, missing)
        }
        (Register::Time(of), value) => {
            let Constant::Plain(Value::Time(nanos)) = Field::plain(Kind::Time).constant(value)? else {
                return None;
            };
            let missing = indicator.then(|| build.read_time(of, TimeToNumber::Missing));
            (Column { register: build.impute_time(of, nanos), ..column.clone() }, missing)
        }
        _ => return None,
    })
}

fn cast(path: &str, of: &[String], to: CastTo, build: &mut Build<'_>) {
    for (_, name, column) in build.columns(path, of) {
        if !build.room(path, 2) {
            continue;
        }
        let cast = match (column.register, to) {
            (Register::Number(_), CastTo::Float) | (Register::Text(_), CastTo::Text) => Some(column.clone()),
            (Register::Number(of), CastTo::Text) if column.whole => printed(path, of, &column, build),
            (Register::Number(of), CastTo::Int) => Some(mapped(of, Map::Truncate, &column, build)),
            (Register::Number(of), CastTo::Bool) => Some(mapped(of, Map::Truth, &column, build)),
            (Register::Text(of), CastTo::Float | CastTo::Int) => {
                let register = build.read(of, TextToNumber::Parse);
                let read = Column { register, may_miss: true, category: None, ..column.clone() };
                Some(truncated(read, to, build))
            }
            (Register::Time(of), CastTo::Float | CastTo::Int) => {
                let read = Column { register: build.read_time(of, TimeToNumber::Seconds), ..column.clone() };
                Some(truncated(read, to, build))
            }
            _ => None,
        };
        match cast {
            Some(cast) => build.replace(&name, cast),
            None => {
                let allowed = "numbers to float, int or bool; texts and times to float or int; whole numbers and \
                               texts to text";
                build.faults.add(format!("{path}.of"), name, allowed);
            }
        }
    }
}

fn mapped(of: usize, map: Map, column: &Column, build: &mut Build<'_>) -> Column {
    Column { register: build.map(of, map), whole: true, ..column.clone() }
}

fn truncated(column: Column, to: CastTo, build: &mut Build<'_>) -> Column {
    match column.register {
        Register::Number(of) if to == CastTo::Int => mapped(of, Map::Truncate, &column, build),
        _ => column,
    }
}

fn printed(path: &str, of: usize, column: &Column, build: &mut Build<'_>) -> Option<Column> {
    build.room_for_text(path, PRINTED_BYTES_MAX);
    let into = build.new_text();
    build.push(Step::Print { of, into });
    Some(Column { register: Register::Text(into), bytes_max: PRINTED_BYTES_MAX, ..column.clone() })
}

fn cross(path: &str, of: &[String], into: &str, build: &mut Build<'_>) {
    let columns = build.columns(path, of);
    if columns.len() != of.len() || !build.room(path, 1) {
        return;
    }
    if columns.len() < 2 || into.is_empty() {
        build.faults.add(path, of.to_vec(), "at least two columns, and a name for their cross under `into`");
        return;
    }
    let numbers: Vec<_> = columns.iter().filter_map(|(_, _, column)| number_of(column)).collect();
    let texts: Vec<_> = columns.iter().filter_map(|(_, _, column)| text_of(column)).collect();
    let bytes_max = columns.iter().map(|(_, _, column)| column.bytes_max.saturating_add(1)).sum();
    let (register, step) = if numbers.len() == columns.len() {
        let into = build.new_number(1);
        (Register::Number(into), Step::Product { of: numbers.into(), into })
    } else if texts.len() == columns.len() {
        if !build.room_for_text(path, bytes_max) {
            return;
        }
        let into = build.new_text();
        (Register::Text(into), Step::Join { of: texts.into(), into })
    } else {
        build.faults.add(format!("{path}.of"), of.to_vec(), "columns of numbers only, or of texts only");
        return;
    };
    build.push(step);
    let first = &columns[0].2;
    let one_source = columns.iter().all(|(_, _, column)| column.source == first.source);
    let column = Column {
        register,
        whole: columns.iter().all(|(_, _, column)| column.whole),
        may_miss: columns.iter().any(|(_, _, column)| column.may_miss),
        category: None,
        bytes_max,
        source: if one_source { first.source.clone() } else { into.into() },
    };
    build.add(&format!("{path}.into"), into.to_owned(), column);
}

fn number_of(column: &Column) -> Option<usize> {
    if let Register::Number(of) = column.register { Some(of) } else { None }
}

fn text_of(column: &Column) -> Option<usize> {
    if let Register::Text(of) = column.register { Some(of) } else { None }
}

fn date_parts(path: &str, of: &[String], parts: &[DatePart], build: &mut Build<'_>) {
    let sound = !parts.is_empty() && (1..parts.len()).all(|end| !parts[..end].contains(&parts[end]));
    if !sound {
        build.faults.add(format!("{path}.parts"), parts.len(), "at least one part, each once");
    }
    for (_, name, column) in build.columns(path, of) {
        let Register::Time(time) = column.register else {
            let allowed = format!("columns of times; this one has {}", column.register.label());
            build.faults.add(format!("{path}.of"), name, allowed);
            continue;
        };
        if !sound || !build.room(path, parts.len()) {
            continue;
        }
        build.remove(&name);
        for part in parts {
            let register = build.read_time(time, TimeToNumber::Part(*part));
            let made = Column { register, whole: true, ..column.clone() };
            build.add(path, format!("{name}.{}", part.label()), made);
        }
    }
}

/// A line for `flyball plan`.
pub(super) fn described(document: &T) -> String {
    /// Maximum columns named.
    const NAMED: usize = 8;
    let written = serde_json::to_value(document).unwrap_or_default();
    let op = written["op"].as_str().unwrap_or_default();
    let of: Vec<_> = written["of"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let more = if of.len() > NAMED { format!(" and {} more", of.len() - NAMED) } else { String::new() };
    let into = if let T::Cross { into, .. } = document { format!(" into {into}") } else { String::new() };
    format!("{op} {}{more}{into}", of[..of.len().min(NAMED)].join(", "))
}
