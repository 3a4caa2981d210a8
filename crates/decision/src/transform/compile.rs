//! Each transform of the document becomes steps; what does not fit its columns is a fault at the author's path.

use super::build::{Build, Column, Register};
use super::coding::Coding;
use super::map::Map;
use super::step::{Read, Step, Tell};
use crate::document::{CastTo, DatePart, TransformDocument};
use crate::field::{Field, TextMap, scalar};
use crate::schema::VALUES_MAX;
use crate::value::{Kind, Value};
use crate::{Constant, document::TransformDocument as T};
use flyball_core::Scalar;
use serde_json::Value as Json;

const EDGES_MAX: usize = 4096;
/// Digits and sign of a whole number.
const PRINTED_BYTES_MAX: usize = 20;

/// `slots` are the fields and features, for the values of categories.
pub(super) fn transform<'s, I: Iterator<Item = &'s Field>>(
    document: &TransformDocument,
    path: String,
    slots: impl Fn() -> I,
    build: &mut Build<'_>,
) {
    let category = |column: &Column| {
        let field = column.category.and_then(|slot| slots().nth(slot));
        field.map_or_else(Vec::new, |field| field.values.to_vec())
    };
    let path = path.as_str();
    match document {
        T::Impute { of, values, indicator } => impute(path, of, values, *indicator, build),
        T::Cast { of, to } => cast(path, of, *to, build),
        T::Scale { of, factor, offset } => {
            let sound = build.as_long(path, "factor", factor.len(), of.len())
                & build.as_long(path, "offset", offset.len(), of.len())
                & build.finite(path, "factor", factor.iter().copied())
                & build.finite(path, "offset", offset.iter().copied());
            let map = |place: usize| Map::Scale { factor: factor[place], offset: offset[place] };
            maps(path, of, sound, false, map, build);
        }
        T::Standardize { of, mean, scale } => {
            let mut sound = build.as_long(path, "mean", mean.len(), of.len())
                & build.as_long(path, "scale", scale.len(), of.len())
                & build.finite(path, "mean", mean.iter().copied())
                & build.finite(path, "scale", scale.iter().copied());
            if scale.contains(&0.0) {
                build.faults.add(
                    format!("{path}.scale"),
                    0,
                    "no zero: a column that never varies has scale 1",
                );
                sound = false;
            }
            let map = |place: usize| Map::Standardize { mean: mean[place], scale: scale[place] };
            maps(path, of, sound, false, map, build);
        }
        T::Log { of } => maps(path, of, true, false, |_| Map::Log, build),
        T::Log1p { of } => maps(path, of, true, false, |_| Map::Log1p, build),
        T::Clip { of, min, max } => clip(path, of, *min, *max, build),
        T::Bucket { of, edges } => {
            let ascend = edges.windows(2).all(|pair| pair[0] < pair[1]);
            let sound = ascend && (1..=EDGES_MAX).contains(&edges.len());
            if !sound {
                let allowed = format!("1 to {EDGES_MAX} numbers, each greater than the one before");
                build.faults.add(format!("{path}.edges"), edges.len(), allowed);
            }
            let sound = sound & build.finite(path, "edges", edges.iter().copied());
            maps(path, of, sound, true, |_| Map::Bucket(edges.as_slice().into()), build);
        }
        T::OneHot { of, values } => one_hot(path, of, values, category, build),
        T::Ordinal { of, values, unknown } => {
            let codes = |place: usize| {
                let table = values[place].iter().enumerate();
                let table = table.map(|(code, value)| (value.as_str().into(), code as f64));
                (table.collect::<TextMap<f64>>(), *unknown)
            };
            let sound = lists(path, of, values, build) & build.finite(path, "unknown", [*unknown]);
            let whole = unknown.fract() == 0.0;
            encode(path, of, sound, whole, (codes, &category), build);
        }
        T::Encode { of, maps, default } => {
            let codes = |place: usize| {
                let table = maps[place].iter().map(|(value, code)| (value.as_str().into(), *code));
                (table.collect::<TextMap<f64>>(), default[place])
            };
            let entries: usize = maps.iter().map(std::collections::BTreeMap::len).sum();
            let sound = build.as_long(path, "maps", maps.len(), of.len())
                & build.as_long(path, "default", default.len(), of.len())
                & at_most_values(path, "maps", entries, build)
                & build.finite(path, "default", default.iter().copied())
                & build.finite(path, "maps", maps.iter().flat_map(|map| map.values().copied()));
            encode(path, of, sound, false, (codes, &category), build);
        }
        T::Hash { of, buckets } => {
            if *buckets == 0 {
                build.faults.add(format!("{path}.buckets"), 0, "at least 1");
            }
            let read = |_| Read::Hash(*buckets);
            reads(path, of, *buckets > 0, true, |place, _| read(place), build);
        }
        T::Cross { of, into } => cross(path, of, into, build),
        T::DateParts { of, parts } => date_parts(path, of, parts, build),
    }
}

/// Numbers, each mapped in its place.
fn maps(
    path: &str,
    of: &[String],
    sound: bool,
    whole: bool,
    map: impl Fn(usize) -> Map,
    build: &mut Build<'_>,
) {
    for (place, name, column) in build.columns(path, of) {
        let Some(number) = build.number(path, &name, &column) else { continue };
        if sound && build.room(path, 1) {
            let register = build.map(number, map(place));
            build.replace(&name, Column { register, whole, ..column });
        }
    }
}

/// Texts, each read as a number in its place.
fn reads(
    path: &str,
    of: &[String],
    sound: bool,
    whole: bool,
    read: impl Fn(usize, &Column) -> Read,
    build: &mut Build<'_>,
) {
    for (place, name, column) in build.columns(path, of) {
        let Some(text) = build.text(path, &name, &column) else { continue };
        if sound && build.room(path, 1) {
            let register = read_text(text, read(place, &column), build);
            build.replace(&name, Column { register, whole, category: None, ..column });
        }
    }
}

fn read_text(of: usize, read: Read, build: &mut Build<'_>) -> Register {
    let register = build.new_number(1);
    if let Register::Number(into) = register {
        build.push(Step::Read { of, into, read });
    }
    register
}

fn encode(
    path: &str,
    of: &[String],
    sound: bool,
    whole: bool,
    (codes, category): (impl Fn(usize) -> (TextMap<f64>, f64), &impl Fn(&Column) -> Vec<String>),
    build: &mut Build<'_>,
) {
    let read = |place: usize, column: &Column| {
        let (table, other) = codes(place);
        Read::Code(Coding::new(table, &category(column)), other)
    };
    reads(path, of, sound, whole, read, build);
}

/// Whether there is a list of values for each column, each value once.
fn lists(path: &str, of: &[String], values: &[Vec<String>], build: &mut Build<'_>) -> bool {
    let mut sound = build.as_long(path, "values", values.len(), of.len());
    sound &= at_most_values(path, "values", values.iter().map(Vec::len).sum(), build);
    for (place, list) in values.iter().enumerate() {
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = list.iter().find(|value| !seen.insert(value.as_str())) {
            build.faults.add(format!("{path}.values[{place}]"), twice.as_str(), "each value once");
            sound = false;
        }
        if list.is_empty() {
            build.faults.add(format!("{path}.values[{place}]"), 0, "at least one value");
            sound = false;
        }
    }
    sound
}

fn at_most_values(path: &str, key: &str, count: usize, build: &mut Build<'_>) -> bool {
    if count > VALUES_MAX {
        build.faults.add(format!("{path}.{key}"), count, format!("at most {VALUES_MAX} values"));
    }
    count <= VALUES_MAX
}

fn one_hot(
    path: &str,
    of: &[String],
    values: &[Vec<String>],
    category: impl Fn(&Column) -> Vec<String>,
    build: &mut Build<'_>,
) {
    let sound = lists(path, of, values, build);
    for (place, name, column) in build.columns(path, of) {
        let Some(text) = build.text(path, &name, &column) else { continue };
        if !sound || !build.room(path, values[place].len()) {
            continue;
        }
        let list = &values[place];
        let Register::Number(into) = build.new_number(list.len()) else { continue };
        let places = list.iter().enumerate().map(|(place, value)| (value.as_str().into(), place as u32));
        let places = Coding::new(places.collect(), &category(&column));
        build.push(Step::OneHot { of: text, into, count: list.len(), places });
        build.remove(&name);
        for (place, value) in list.iter().enumerate() {
            let register = Register::Number(into + place);
            let made = Column { register, whole: true, may_miss: false, category: None, ..column.clone() };
            build.add(path, format!("{name}={value}"), made);
        }
    }
}

fn clip(path: &str, of: &[String], min: Option<f64>, max: Option<f64>, build: &mut Build<'_>) {
    let (low, high) = (min.unwrap_or(f64::NEG_INFINITY), max.unwrap_or(f64::INFINITY));
    let mut sound = build.finite(path, "min", min) & build.finite(path, "max", max);
    if (min.is_none() && max.is_none()) || low > high {
        build.faults.add(path, format!("{low} to {high}"), "`min`, `max` or both, `min` not above `max`");
        sound = false;
    }
    maps(path, of, sound, false, |_| Map::Clip { min: low, max: high }, build);
}

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

/// The column with `value` where it was missing, and the one that says where it was.
fn imputed(
    column: &Column,
    value: &Json,
    indicator: bool,
    build: &mut Build<'_>,
) -> Option<(Column, Option<Register>)> {
    Some(match (column.register, scalar(value)) {
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
            let missing = indicator.then(|| read_text(of, Read::Missing, build));
            let (register, constant) = (build.new_text(), build.constant(text));
            if let Register::Text(into) = register {
                build.push(Step::ImputeText { of, into, constant });
            }
            let bytes_max = column.bytes_max.max(text.len());
            (Column { register, bytes_max, ..column.clone() }, missing)
        }
        (Register::Time(of), value) => {
            let Constant::Plain(Value::Time(nanos)) = Field::plain(Kind::Time).constant(value)? else {
                return None;
            };
            let missing = indicator.then(|| build.tell(of, Tell::Missing));
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
                let register = read_text(of, Read::Parse, build);
                let read = Column { register, may_miss: true, category: None, ..column.clone() };
                Some(truncated(read, to, build))
            }
            (Register::Time(of), CastTo::Float | CastTo::Int) => {
                let told = Column { register: build.tell(of, Tell::Seconds), ..column.clone() };
                Some(truncated(told, to, build))
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
    let register = build.new_text();
    if let Register::Text(into) = register {
        build.push(Step::Print { of, into });
    }
    Some(Column { register, bytes_max: PRINTED_BYTES_MAX, ..column.clone() })
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
        let register = build.new_number(1);
        let Register::Number(into) = register else { return };
        (register, Step::Product { of: numbers.into(), into })
    } else if texts.len() == columns.len() {
        if !build.room_for_text(path, bytes_max) {
            return;
        }
        let register = build.new_text();
        let Register::Text(into) = register else { return };
        (register, Step::Join { of: texts.into(), into })
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
            let register = build.tell(time, Tell::Part(*part));
            let made = Column { register, whole: true, ..column.clone() };
            build.add(path, format!("{name}.{}", part.label()), made);
        }
    }
}

/// A line for `flyball plan`.
pub(super) fn described(document: &TransformDocument) -> String {
    /// Columns that are named.
    const NAMED: usize = 8;
    let (op, of) = match document {
        T::Impute { of, .. } => ("impute", of),
        T::Cast { of, .. } => ("cast", of),
        T::Scale { of, .. } => ("scale", of),
        T::Standardize { of, .. } => ("standardize", of),
        T::Log { of } => ("log", of),
        T::Log1p { of } => ("log1p", of),
        T::Clip { of, .. } => ("clip", of),
        T::Bucket { of, .. } => ("bucket", of),
        T::OneHot { of, .. } => ("one_hot", of),
        T::Ordinal { of, .. } => ("ordinal", of),
        T::Hash { of, .. } => ("hash", of),
        T::Encode { of, .. } => ("encode", of),
        T::Cross { of, .. } => ("cross", of),
        T::DateParts { of, .. } => ("date_parts", of),
    };
    let more = if of.len() > NAMED { format!(" and {} more", of.len() - NAMED) } else { String::new() };
    let into = if let T::Cross { into, .. } = document { format!(" into {into}") } else { String::new() };
    format!("{op} {}{more}{into}", of[..of.len().min(NAMED)].join(", "))
}
