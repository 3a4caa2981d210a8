//! Adds a candidate to the decision that it may replace, as one more variant.
//!
//! The candidate brings its own models. Everything else must be equal, or its share of rows would be decided
//! by other rules than the rest.

use crate::document::{DecisionDocument, ModelDocument, VariantDocument};
use crate::faults::Faults;
use flyball_core::snapshot::SnapshotFaults;
use serde_json::Value as Json;

/// The variant's name, and the prefix of its models' names.
pub const CANDIDATE: &str = "candidate";
const FAULTS_MAX: usize = 8;
const SHOWN_MAX: usize = 60;

impl DecisionDocument {
    /// Returns this decision with the candidate's first variant added.
    ///
    /// The variant gets a `share` of the rows by the usual route; as a `shadow` it runs on all of them in the
    /// background and answers none.
    pub fn with_candidate(
        &self,
        candidate: &DecisionDocument,
        share: f64,
        shadow: bool,
    ) -> Result<DecisionDocument, SnapshotFaults> {
        let mut faults = Faults::default();
        differences("", &but_models(self), &but_models(candidate), &mut faults);
        if self.variants.iter().any(|variant| variant.name == CANDIDATE) {
            faults.add("variants.candidate", CANDIDATE, "another name: a candidate is tried under this one");
        }
        let champion = self.variants.first().filter(|_| faults.0.is_empty());
        let Some(champion) = champion else { return Err(SnapshotFaults(faults.0)) };
        let mut with_candidate = self.clone();
        for name in &champion.models {
            match candidate.models.iter().find(|model| model.name == *name) {
                Some(model) => with_candidate.models.push(renamed(model, &champion.models)),
                None => faults.tell(format!("models.{name}"), "required, for a variant has it; but missing"),
            }
        }
        with_candidate.variants.push(VariantDocument {
            name: CANDIDATE.to_owned(),
            models: champion.models.iter().map(|name| tried(name)).collect(),
            weights: champion.weights.iter().map(|(name, weight)| (tried(name), *weight)).collect(),
        });
        if shadow {
            with_candidate.route.shadow.push(CANDIDATE.to_owned());
        } else if share > 0.0 {
            with_candidate.route.split.insert(CANDIDATE.to_owned(), share);
        }
        if faults.0.is_empty() { Ok(with_candidate) } else { Err(SnapshotFaults(faults.0)) }
    }
}

fn tried(name: &str) -> String {
    format!("{CANDIDATE}.{name}")
}

/// The candidate's model under a new name. Scores from models of its variant refer to the candidate's.
fn renamed(model: &ModelDocument, variant: &[String]) -> ModelDocument {
    let mut renamed = ModelDocument { name: tried(&model.name), ..model.clone() };
    for column in renamed.inputs.iter_mut().flat_map(|input| &mut input.columns) {
        let of = column.strip_suffix(".score");
        if of.is_some_and(|of| variant.iter().any(|name| name == of)) {
            *column = tried(column);
        }
    }
    renamed
}

fn but_models(document: &DecisionDocument) -> Json {
    let mut document = serde_json::to_value(document).unwrap_or(Json::Null);
    if let Json::Object(parts) = &mut document {
        parts.remove("models");
    }
    document
}

/// Reports each difference of the candidate at its innermost path.
fn differences(path: &str, ours: &Json, theirs: &Json, faults: &mut Faults) {
    if ours == theirs || faults.0.len() >= FAULTS_MAX {
        return;
    }
    match (ours, theirs) {
        (Json::Object(ours), Json::Object(theirs)) => {
            let more = theirs.keys().filter(|key| !ours.contains_key(*key));
            for key in ours.keys().chain(more) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let part = |of: &serde_json::Map<String, Json>| of.get(key).cloned().unwrap_or(Json::Null);
                differences(&path, &part(ours), &part(theirs), faults);
            }
        }
        (Json::Array(ours), Json::Array(theirs)) if ours.len() == theirs.len() => {
            for (place, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                differences(&format!("{path}[{place}]"), ours, theirs, faults);
            }
        }
        _ => {
            let shown: String = ours.to_string().chars().take(SHOWN_MAX).collect();
            let allowed = format!(
                "{shown}, as the serving version has it: a candidate may differ in its models alone; promote it without a share"
            );
            faults.add(path, theirs.clone(), allowed);
        }
    }
}
