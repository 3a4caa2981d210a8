//! Transforms from texts to numbers: one-hot, ordinal, target encoding and hashing.

use super::build::{Build, Column, Register};
use super::coding::Coding;
use super::step::{Step, TextToNumber};
use crate::field::TextMap;
use crate::schema::VALUES_MAX;
use std::collections::{BTreeMap, HashSet};

pub(super) fn one_hot(path: &str, of: &[String], values: &[Vec<String>], build: &mut Build<'_>) {
    let sound = lists(path, of, values, build);
    for (place, name, column) in build.columns(path, of) {
        let Some(text) = build.text(path, &name, &column) else { continue };
        if !sound || !build.room(path, values[place].len()) {
            continue;
        }
        let list = &values[place];
        let into = build.new_number(list.len());
        let places = list.iter().enumerate().map(|(place, value)| (value.as_str().into(), place as u32));
        let places = Coding::new(places.collect(), &build.category(&column));
        build.push(Step::OneHot { of: text, into, count: list.len(), places });
        build.remove(&name);
        for (place, value) in list.iter().enumerate() {
            let register = Register::Number(into + place);
            let made = Column { register, whole: true, may_miss: false, category: None, ..column.clone() };
            build.add(path, format!("{name}={value}"), made);
        }
    }
}

pub(super) fn ordinal(
    path: &str,
    of: &[String],
    values: &[Vec<String>],
    unknown: f64,
    build: &mut Build<'_>,
) {
    let sound = lists(path, of, values, build) & build.finite(path, "unknown", [unknown]);
    let table = |place: usize| {
        let table = values[place].iter().enumerate();
        table.map(|(code, value)| (value.as_str().into(), code as f64)).collect::<TextMap<f64>>()
    };
    let whole = unknown.fract() == 0.0;
    reads(path, of, sound, whole, build, |place, category| {
        TextToNumber::Code(Coding::new(table(place), category), unknown)
    });
}

pub(super) fn encode(
    path: &str,
    of: &[String],
    maps: &[BTreeMap<String, f64>],
    default: &[f64],
    build: &mut Build<'_>,
) {
    let sound = build.as_long(path, "maps", maps.len(), of.len())
        & build.as_long(path, "default", default.len(), of.len())
        & at_most_values(path, "maps", maps.iter().map(BTreeMap::len).sum(), build)
        & build.finite(path, "default", default.iter().copied())
        & build.finite(path, "maps", maps.iter().flat_map(|map| map.values().copied()));
    let table = |place: usize| {
        let table = maps[place].iter().map(|(value, code)| (value.as_str().into(), *code));
        table.collect::<TextMap<f64>>()
    };
    reads(path, of, sound, false, build, |place, category| {
        TextToNumber::Code(Coding::new(table(place), category), default[place])
    });
}

pub(super) fn hash(path: &str, of: &[String], buckets: u32, build: &mut Build<'_>) {
    if buckets == 0 {
        build.faults.add(format!("{path}.buckets"), 0, "at least 1");
    }
    reads(path, of, buckets > 0, true, build, |_, _| TextToNumber::Hash(buckets));
}

/// Replaces texts by numbers. `read` gets the index and the category's values, if any.
fn reads(
    path: &str,
    of: &[String],
    sound: bool,
    whole: bool,
    build: &mut Build<'_>,
    read: impl Fn(usize, &[String]) -> TextToNumber,
) {
    for (place, name, column) in build.columns(path, of) {
        let Some(text) = build.text(path, &name, &column) else { continue };
        if sound && build.room(path, 1) {
            let read = read(place, &build.category(&column));
            let register = build.read(text, read);
            build.replace(&name, Column { register, whole, category: None, ..column });
        }
    }
}

/// Checks for one list of values for each column, without duplicates.
fn lists(path: &str, of: &[String], values: &[Vec<String>], build: &mut Build<'_>) -> bool {
    let mut sound = build.as_long(path, "values", values.len(), of.len());
    sound &= at_most_values(path, "values", values.iter().map(Vec::len).sum(), build);
    for (place, list) in values.iter().enumerate() {
        let mut seen = HashSet::new();
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
    let fits = count <= build.values_left;
    build.values_left = build.values_left.saturating_sub(count);
    if !fits {
        let allowed = format!("at most {VALUES_MAX} values in all transforms together");
        build.faults.add(format!("{path}.{key}"), count, allowed);
    }
    fits
}
