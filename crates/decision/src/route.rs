//! Variants, and which of them decides a request: the champion, or another by its share.

use crate::document::{RouteDocument, VariantDocument};
use crate::faults::Faults;
use crate::field::Field;
use crate::model::{Feed, ModelPlan};
use crate::nearest::did_you_mean;
use crate::rows::Rows;
use crate::schema::{Scope, label};
use crate::slot::{KeyBuffer, Slot};
use std::sync::Arc;

const VARIANTS_MAX: usize = 16;
/// The variant of a decision without a model.
const RULES_ALONE: &str = "rules";
/// Tolerance for shares that should sum to 1, for decimal rounding.
const SHARES_SLACK: f64 = 1e-9;

#[derive(Clone, Debug)]
pub struct Variant {
    pub name: Arc<str>,
    /// In the order in which they run.
    pub models: Vec<usize>,
    /// The weight of each; 0: its score is only a column of others.
    pub weights: Vec<f64>,
}

#[derive(Clone, Debug, Default)]
pub struct RoutePlan {
    /// Variants other than the champion, with cumulative shares.
    pub(crate) split: Vec<(usize, f64)>,
    pub(crate) sticky: Option<Slot>,
    pub shadow: Vec<usize>,
    pub fallback: Option<usize>,
}

impl RoutePlan {
    /// Whether rows may go to a variant other than the champion.
    pub fn splits(&self) -> bool {
        !self.split.is_empty()
    }

    /// The variant of a row. `draw` is random; with a sticky key, the key alone decides.
    pub fn choose(&self, rows: &Rows, row: usize, draw: u64) -> usize {
        if self.split.is_empty() {
            return 0;
        }
        let mut buffer = KeyBuffer::new();
        let key = self.sticky.as_ref().and_then(|slot| slot.text(rows, row, &mut buffer));
        let point = unit(key.map_or(draw, stable_hash));
        self.split.iter().find(|&&(_, end)| point < end).map_or(0, |&(variant, _)| variant)
    }
}

/// The low half of MurmurHash3 (x64, 128 bits, seed 0): stable across machines and versions.
fn stable_hash(key: &str) -> u64 {
    murmur3::murmur3_x64_128(&mut key.as_bytes(), 0).expect("reading from memory cannot fail") as u64
}

/// Maps to 0 (inclusive) up to 1 (exclusive).
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The variants in order. `models` has the valid ones; `known` all names.
pub(crate) fn variants(
    documents: &[VariantDocument],
    models: &[ModelPlan],
    known: &[&str],
    faults: &mut Faults,
) -> Vec<Variant> {
    if documents.is_empty() && known.is_empty() {
        return vec![Variant { name: RULES_ALONE.into(), models: Vec::new(), weights: Vec::new() }];
    }
    if documents.is_empty() || documents.len() > VARIANTS_MAX {
        faults.add("variants", documents.len(), format!("1 to {VARIANTS_MAX} variants"));
    }
    let mut variants: Vec<Variant> = Vec::new();
    for document in documents.iter().take(VARIANTS_MAX) {
        let path = format!("variants.{}", document.name);
        if !label(&document.name) {
            faults.add(path, document.name.as_str(), "letters, digits, '_', '-' and '.', at most 64");
        } else if variants.iter().any(|variant| *variant.name == *document.name) {
            faults.add(path, document.name.as_str(), "a name that no other variant has");
        } else {
            variants.push(variant(document, &path, models, known, faults));
        }
    }
    variants
}

fn variant(
    document: &VariantDocument,
    path: &str,
    models: &[ModelPlan],
    known: &[&str],
    faults: &mut Faults,
) -> Variant {
    let list = format!("{path}.models");
    if document.models.is_empty() || document.models.len() > known.len() {
        faults.add(list.as_str(), document.models.len(), "at least one model, each once");
    }
    let mut places = Vec::new();
    for name in &document.models {
        match known.iter().position(|known| known == name) {
            None => {
                let near = did_you_mean(name, known.iter().copied());
                faults.add(list.as_str(), name.as_str(), format!("a name of `models`{near}"));
            }
            Some(place) if places.contains(&place) => {
                faults.add(list.as_str(), name.as_str(), "each model once");
            }
            Some(place) => {
                needs(name, &places, models, known, &list, faults);
                places.push(place);
            }
        }
    }
    for name in document.weights.keys().filter(|name| !document.models.contains(name)) {
        let near = did_you_mean(name, document.models.iter().map(String::as_str));
        faults.add(format!("{path}.weights.{name}"), name.as_str(), format!("one of its models{near}"));
    }
    for (name, weight) in document.weights.iter().filter(|(_, weight)| !weight.is_finite()) {
        faults.add(format!("{path}.weights.{name}"), weight.to_string(), "a finite number");
    }
    if document.weights.values().all(|weight| *weight == 0.0) {
        faults.add(
            format!("{path}.weights"),
            document.weights.len(),
            "a weight that is not 0 for some model",
        );
    }
    let weights = places.iter().map(|&place| document.weights.get(known[place]).copied().unwrap_or(0.0));
    Variant { name: document.name.as_str().into(), weights: weights.collect(), models: places }
}

/// Requires that the models a model reads from run `before` it.
fn needs(
    name: &str,
    before: &[usize],
    models: &[ModelPlan],
    known: &[&str],
    path: &str,
    faults: &mut Faults,
) {
    let Some(plan) = models.iter().find(|plan| *plan.name == *name) else { return };
    for feed in plan.inputs.iter().flat_map(|input| &input.columns) {
        if let Feed::Score(of) = feed
            && !before.contains(of)
        {
            let allowed = format!("'{}' before it, whose score is one of its columns", known[*of]);
            faults.add(path, name, allowed);
        }
    }
}

pub(crate) fn route(
    document: &RouteDocument,
    variants: &[Variant],
    fields: &[Field],
    scope: &mut Scope<'_>,
) -> RoutePlan {
    let sticky = document.sticky.as_ref();
    let sticky = sticky.and_then(|name| scope.slot("route.sticky", name, fields, &Slot::KEYS));
    let faults = &mut *scope.faults;
    let split = split(document, variants, faults);
    let mut shadow = Vec::new();
    for (place, name) in document.shadow.iter().enumerate() {
        let path = format!("route.shadow[{place}]");
        match find(name, variants, &path, faults) {
            Some(0) => faults.add(path, name.as_str(), "another variant than the champion"),
            Some(variant) if shadow.contains(&variant) => {
                faults.add(path, name.as_str(), "each variant once")
            }
            Some(variant) => shadow.push(variant),
            None => {}
        }
    }
    let fallback = document.fallback.as_ref();
    let fallback = fallback.and_then(|name| find(name, variants, "route.fallback", faults));
    if let (Some(0), Some(name)) = (fallback, &document.fallback) {
        faults.add("route.fallback", name.as_str(), "another variant than the champion");
    }
    RoutePlan { split, sticky, shadow, fallback }
}

/// In variant order: enlarging one share keeps its existing requests.
fn split(document: &RouteDocument, variants: &[Variant], faults: &mut Faults) -> Vec<(usize, f64)> {
    let mut shares = Vec::new();
    for (name, share) in &document.split {
        let path = format!("route.split.{name}");
        match find(name, variants, &path, faults) {
            Some(0) => faults.add(path, *share, "another variant than the champion, which gets the rest"),
            Some(variant) if (0.0..=1.0).contains(share) => shares.push((variant, *share)),
            Some(_) => faults.add(path, *share, "a share from 0 to 1"),
            None => {}
        }
    }
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    if sum > 1.0 + SHARES_SLACK {
        faults.add("route.split", sum, "shares whose sum is at most 1");
    }
    shares.sort_unstable_by_key(|(variant, _)| *variant);
    let mut end = 0.0;
    for (_, share) in &mut shares {
        end += *share;
        *share = end;
    }
    shares
}

fn find(name: &str, variants: &[Variant], path: &str, faults: &mut Faults) -> Option<usize> {
    let place = variants.iter().position(|variant| *variant.name == *name);
    if place.is_none() {
        let near = did_you_mean(name, variants.iter().map(|variant| &*variant.name));
        faults.add(path, name, format!("the name of one of `variants`{near}"));
    }
    place
}
