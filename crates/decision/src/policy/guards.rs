//! Guards: the ranges that numbers must be in for any decision to be made.

use super::NO_SCORE;
use super::bands::Range;
use crate::document::GuardDocument;
use crate::faults::Faults;
use crate::names::Names;
use crate::nearest::did_you_mean;
use crate::rows::Rows;
use crate::value::{Kind, Value};
use std::fmt;
use std::sync::Arc;

const GUARDS_MAX: usize = 256;

/// A guard violation.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardFault {
    /// `score`, a field or a feature.
    pub of: Arc<str>,
    /// None if errors must omit it.
    pub is: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
}

impl fmt::Display for GuardFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GuardFault { of, is, min, max } = self;
        match is {
            Some(is) => write!(f, "{of} is {is}")?,
            None => write!(f, "{of} is hidden")?,
        }
        write!(f, "; allowed: {}", spelled(*min, *max))?;
        match is {
            // Otherwise an infinite value would read as if it were inside.
            Some(is) if is.is_infinite() && min.is_some() != max.is_some() => f.write_str(", and finite"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for GuardFault {}

#[derive(Clone, Debug)]
pub(super) struct Guards {
    score: Guard,
    inputs: Vec<(usize, Guard)>,
}

#[derive(Clone, Debug)]
struct Guard {
    of: Arc<str>,
    min: Option<f64>,
    max: Option<f64>,
    hidden: bool,
}

impl Guards {
    pub(super) fn compile(
        documents: &[GuardDocument],
        path: &str,
        names: &Names,
        faults: &mut Faults,
    ) -> Guards {
        // Without its own guard, the score must still be finite.
        let score = Guard { of: "score".into(), min: None, max: None, hidden: false };
        let mut guards = Guards { score, inputs: Vec::new() };
        if documents.len() > GUARDS_MAX {
            faults.add(format!("{path}.guard"), documents.len(), format!("at most {GUARDS_MAX} guards"));
        }
        for (place, document) in documents.iter().enumerate().take(GUARDS_MAX) {
            let own = format!("{path}.guard.{}", document.of);
            if documents[..place].iter().any(|other| other.of == document.of) {
                faults.tell(&own, "duplicate guard; write one range");
            }
            if let (Some(min), Some(max)) = (document.min, document.max)
                && min > max
            {
                faults.tell(&own, format!("the range is empty: {min} is above {max}"));
            }
            let GuardDocument { min, max, .. } = *document;
            let guard = Guard { of: document.of.as_str().into(), min, max, hidden: false };
            if document.of == "score" {
                if names.unscored {
                    faults.tell(&own, NO_SCORE);
                }
                guards.score = guard;
                continue;
            }
            match names.get(&document.of) {
                Some(name) if matches!(name.kind, Kind::Int | Kind::Float) => {
                    guards.inputs.push((name.slot, Guard { hidden: name.hidden, ..guard }))
                }
                Some(_) => faults.tell(
                    &own,
                    "guards are for numbers: score, and fields and features of type int and float",
                ),
                None => {
                    let near = did_you_mean(&document.of, names.all().chain(["score"]));
                    faults.tell(&own, format!("'{}' is not score, a field or a feature{near}", document.of));
                }
            }
        }
        guards
    }

    /// The accepted scores.
    pub(super) fn range(&self) -> Range {
        let Guard { min, max, .. } = self.score;
        Range { min: min.unwrap_or(f64::NEG_INFINITY), max: max.unwrap_or(f64::INFINITY) }
    }

    pub(super) fn score(&self, score: f64) -> Result<(), GuardFault> {
        self.score.check(score)
    }

    /// Missing values are not guarded: `required` and `on_missing` handle them.
    pub(super) fn inputs(&self, rows: &Rows, row: usize) -> Result<(), GuardFault> {
        self.inputs.iter().try_for_each(|(slot, guard)| match rows.value(row, *slot) {
            Value::Int(value) => guard.check(value as f64),
            Value::Float(value) => guard.check(value),
            _ => Ok(()),
        })
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let score = Some(&self.score).filter(|score| score.min.is_some() || score.max.is_some());
        let guards = score.into_iter().chain(self.inputs.iter().map(|(_, guard)| guard));
        guards.map(|guard| format!("guard: {} must be {}", guard.of, spelled(guard.min, guard.max))).collect()
    }
}

impl Guard {
    /// Rejects non-finite values: they are a model's or store's fault, and JSON cannot represent them.
    fn check(&self, is: f64) -> Result<(), GuardFault> {
        let inside = self.min.is_none_or(|min| is >= min) && self.max.is_none_or(|max| is <= max);
        if inside && is.is_finite() {
            return Ok(());
        }
        let is = (!self.hidden).then_some(is);
        Err(GuardFault { of: Arc::clone(&self.of), is, min: self.min, max: self.max })
    }
}

fn spelled(min: Option<f64>, max: Option<f64>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => "a finite number".to_owned(),
    }
}
