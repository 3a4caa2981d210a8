//! Score bands: each score within the guard is in exactly one.

use super::outcomes::Outcomes;
use crate::document::BandDocument;
use crate::faults::Faults;
use std::cmp::Ordering;
use std::sync::Arc;

const BANDS_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Band {
    pub(super) name: Arc<str>,
    pub(super) outcome: usize,
}

/// In ascending order.
#[derive(Clone, Debug)]
pub(super) struct Bands {
    /// The start of each band; the first is minus infinity, because the guard rejects lower scores.
    starts: Vec<f64>,
    pub(super) bands: Vec<Band>,
}

/// The scores that the guard accepts, ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Bands {
    pub(super) fn compile(
        documents: &[BandDocument],
        path: &str,
        outcomes: &Outcomes,
        range: Range,
        faults: &mut Faults,
    ) -> Option<Bands> {
        let before = faults.0.len();
        if documents.is_empty() || documents.len() > BANDS_MAX {
            faults.add(path, documents.len(), format!("1 to {BANDS_MAX} bands"));
            return None;
        }
        let mut bands: Vec<(f64, f64, Band)> = Vec::with_capacity(documents.len());
        for document in documents {
            let own = format!("{path}.{}", document.name);
            if bands.iter().any(|(.., band)| *band.name == document.name) {
                faults.tell(&own, "duplicate name; each band needs its own");
            }
            let start = document.from.unwrap_or(f64::NEG_INFINITY);
            let end = document.to.unwrap_or(f64::INFINITY);
            if start.partial_cmp(&end) != Some(Ordering::Less) {
                faults.tell(&own, format!("a band must end above its start; this one is {start}..{end}"));
            } else if start > range.max || end <= range.min {
                let (own_range, range) = (spelled(start, end), spelled(range.min, range.max));
                faults.tell(&own, format!("{own_range} is outside the guard of score, {range}"));
            }
            let outcome = document.outcome.as_deref().unwrap_or(&document.name);
            let outcome = outcomes.find(outcome, &own, faults).unwrap_or_default();
            bands.push((start, end, Band { name: document.name.as_str().into(), outcome }));
        }
        if faults.0.len() > before {
            return None;
        }
        bands.sort_by(|a, b| a.0.total_cmp(&b.0));
        covering(&bands, range, path, faults);
        let starts = bands.iter().enumerate().map(|(place, (start, ..))| match place {
            0 => f64::NEG_INFINITY,
            _ => *start,
        });
        let starts = starts.collect();
        (faults.0.len() == before)
            .then(|| Bands { starts, bands: bands.into_iter().map(|(.., band)| band).collect() })
    }

    /// The band of a score that is not NaN.
    pub(super) fn place(&self, score: f64) -> usize {
        self.starts.partition_point(|start| *start <= score).saturating_sub(1)
    }

    /// Formats one line for each band: `score 0.3..0.8: review`.
    pub(super) fn lines(&self, outcomes: &Outcomes) -> Vec<String> {
        let ends = self.starts.iter().skip(1).chain([&f64::INFINITY]);
        let each = self.starts.iter().zip(ends).zip(&self.bands);
        each.map(|((start, end), band)| {
            let outcome = outcomes.name(band.outcome);
            let then = if *band.name == **outcome { String::new() } else { format!(" → {outcome}") };
            format!("{}: {}{then}", scores(*start, *end), band.name)
        })
        .collect()
    }
}

/// Adds a fault for each interval of `range` in no band or in two.
fn covering(bands: &[(f64, f64, Band)], range: Range, path: &str, faults: &mut Faults) {
    let mut covered: Option<(f64, &str)> = None;
    for (start, end, band) in bands {
        match covered {
            Some((to, name)) if *start < to => {
                let text =
                    format!("{} belongs to both {name} and {}", spelled(*start, to.min(*end)), band.name);
                faults.tell(path, text);
            }
            _ => {
                let to = covered.map_or(f64::NEG_INFINITY, |(to, _)| to).max(range.min);
                if to < start.min(range.max) {
                    faults.tell(path, format!("{} belongs to no band", spelled(to, start.min(range.max))));
                }
            }
        }
        if covered.is_none_or(|(to, _)| *end > to) {
            covered = Some((*end, &band.name));
        }
    }
    let to = covered.map_or(f64::NEG_INFINITY, |(to, _)| to);
    // The guard includes its end, a band excludes its own; an unbounded band includes everything.
    if to == range.max && to.is_finite() {
        let text = format!("{} belongs to no band; leave the last band without end", to);
        faults.tell(path, text);
    } else if to < range.max {
        faults.tell(path, format!("{} belongs to no band", spelled(to.max(range.min), range.max)));
    }
}

/// Formats `0.75..0.80`, both with the same number of decimals.
fn spelled(start: f64, end: f64) -> String {
    let decimals = |value: f64| value.to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len());
    match (start.is_finite(), end.is_finite()) {
        (true, true) => {
            let most = decimals(start).max(decimals(end));
            format!("{start:.most$}..{end:.most$}")
        }
        (true, false) => format!("everything from {} on", start),
        (false, true) => format!("everything below {}", end),
        (false, false) => "everything".to_owned(),
    }
}

fn scores(start: f64, end: f64) -> String {
    match spelled(start, end).trim_start_matches("everything") {
        "" => "any score".to_owned(),
        range => format!("score {}", range.trim_start()),
    }
}
