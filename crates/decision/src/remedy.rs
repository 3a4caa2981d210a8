//! The remedy for each kind of failure. The walk applies it.

use crate::document::{RemediesDocument, RemedyDocument};
use crate::faults::Faults;
use crate::nearest::did_you_mean;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The caller gets an error.
    Error,
    Shed,
    Retry,
    Rules,
    Previous,
    /// The policy's outcome with this index.
    Outcome(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedies {
    pub model_unavailable: Remedy,
    pub timeout: Remedy,
    pub queue_full: Remedy,
    pub feature_error: Remedy,
    pub invalid_input: Remedy,
    pub guard_violated: Remedy,
    pub record_error: Remedy,
}

impl Remedies {
    /// `outcomes` are the policy's; `previous` states whether there is a fallback.
    pub(crate) fn compile(
        document: &RemediesDocument,
        outcomes: &[String],
        previous: bool,
        faults: &mut Faults,
    ) -> Remedies {
        let mut remedy = |key: &str, document: &RemedyDocument| {
            compile(document, &format!("remedies.{key}"), outcomes, previous, faults)
        };
        let remedies = Remedies {
            model_unavailable: remedy("model_unavailable", &document.model_unavailable),
            timeout: remedy("timeout", &document.timeout),
            queue_full: remedy("queue_full", &document.queue_full),
            feature_error: remedy("feature_error", &document.feature_error),
            invalid_input: remedy("invalid_input", &document.invalid_input),
            guard_violated: remedy("guard_violated", &document.guard_violated),
            record_error: remedy("record_error", &document.record_error),
        };
        if matches!(remedies.invalid_input, Remedy::Retry | Remedy::Previous) {
            let allowed = "another remedy: a retry of the same input is just as invalid";
            faults.add("remedies.invalid_input", remedies.invalid_input.label(), allowed);
        }
        if remedies.record_error == Remedy::Previous {
            let allowed = "another remedy: the fallback's decision must be recorded too";
            faults.add("remedies.record_error", remedies.record_error.label(), allowed);
        }
        remedies
    }

    /// All remedies with their keys in the document.
    pub fn each(&self) -> [(&'static str, Remedy); 7] {
        [
            ("model_unavailable", self.model_unavailable),
            ("timeout", self.timeout),
            ("queue_full", self.queue_full),
            ("feature_error", self.feature_error),
            ("invalid_input", self.invalid_input),
            ("guard_violated", self.guard_violated),
            ("record_error", self.record_error),
        ]
    }
}

impl Remedy {
    pub const fn label(self) -> &'static str {
        match self {
            Remedy::Error => "error",
            Remedy::Shed => "shed",
            Remedy::Retry => "retry",
            Remedy::Rules => "rules",
            Remedy::Previous => "previous",
            Remedy::Outcome(_) => "outcome",
        }
    }
}

fn compile(
    document: &RemedyDocument,
    path: &str,
    outcomes: &[String],
    previous: bool,
    faults: &mut Faults,
) -> Remedy {
    match document {
        RemedyDocument::Error => Remedy::Error,
        RemedyDocument::Shed => Remedy::Shed,
        RemedyDocument::Retry => Remedy::Retry,
        RemedyDocument::Rules => Remedy::Rules,
        RemedyDocument::Previous => {
            if !previous {
                faults.add(path, "previous", "another remedy, or a variant under `route.fallback`");
            }
            Remedy::Previous
        }
        RemedyDocument::Outcome(name) => {
            let place = outcomes.iter().position(|outcome| outcome == name);
            if place.is_none() {
                let near = did_you_mean(name, outcomes.iter().map(String::as_str));
                let allowed = format!("an outcome of `policy.outcomes`{near}");
                faults.add(format!("{path}.outcome"), name.as_str(), allowed);
            }
            place.map_or(Remedy::Error, Remedy::Outcome)
        }
    }
}
