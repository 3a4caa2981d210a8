//! Transforms from numbers to numbers, column by column.

use super::build::{Build, Column};
use super::map::Map;

const EDGES_MAX: usize = 4096;

pub(super) fn scale(path: &str, of: &[String], factor: &[f64], offset: &[f64], build: &mut Build<'_>) {
    let sound = pairs(path, of, ("factor", factor), ("offset", offset), build);
    let map = |place: usize| Map::Scale { factor: factor[place], offset: offset[place] };
    maps(path, of, sound, false, map, build);
}

pub(super) fn standardize(path: &str, of: &[String], mean: &[f64], scale: &[f64], build: &mut Build<'_>) {
    let mut sound = pairs(path, of, ("mean", mean), ("scale", scale), build);
    if scale.contains(&0.0) {
        build.faults.add(format!("{path}.scale"), 0, "no zero: a column that never varies has scale 1");
        sound = false;
    }
    let map = |place: usize| Map::Standardize { mean: mean[place], scale: scale[place] };
    maps(path, of, sound, false, map, build);
}

pub(super) fn bucket(path: &str, of: &[String], edges: &[f64], build: &mut Build<'_>) {
    let ascend = edges.windows(2).all(|pair| pair[0] < pair[1]);
    let mut sound = build.finite(path, "edges", edges.iter().copied());
    if !ascend || !(1..=EDGES_MAX).contains(&edges.len()) {
        let allowed = format!("1 to {EDGES_MAX} numbers, each greater than the one before");
        build.faults.add(format!("{path}.edges"), edges.len(), allowed);
        sound = false;
    }
    maps(path, of, sound, true, |_| Map::Bucket(edges.into()), build);
}

pub(super) fn clip(path: &str, of: &[String], min: Option<f64>, max: Option<f64>, build: &mut Build<'_>) {
    let (low, high) = (min.unwrap_or(f64::NEG_INFINITY), max.unwrap_or(f64::INFINITY));
    let mut sound = build.finite(path, "min", min) & build.finite(path, "max", max);
    if (min.is_none() && max.is_none()) || low > high {
        build.faults.add(path, format!("{low} to {high}"), "`min`, `max` or both, `min` not above `max`");
        sound = false;
    }
    maps(path, of, sound, false, |_| Map::Clip { min: low, max: high }, build);
}

/// Applies the same map to every column.
pub(super) fn each(path: &str, of: &[String], map: &Map, build: &mut Build<'_>) {
    maps(path, of, true, false, |_| map.clone(), build);
}

/// Checks that two lists have a finite number for each column.
fn pairs(
    path: &str,
    of: &[String],
    (one, ones): (&str, &[f64]),
    (other, others): (&str, &[f64]),
    build: &mut Build<'_>,
) -> bool {
    build.as_long(path, one, ones.len(), of.len())
        & build.as_long(path, other, others.len(), of.len())
        & build.finite(path, one, ones.iter().copied())
        & build.finite(path, other, others.iter().copied())
}

/// Replaces each number column by its mapped one.
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
