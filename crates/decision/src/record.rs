//! The recording plan of a decision: masked fields, subject and sampling. The walk writes the records.

use crate::document::{DecisionDocument, Durability, RecordDocument, WhenUnavailable};
use crate::faults::Faults;
use crate::feature::FeaturePlan;
use crate::field::Field;
use crate::nearest::did_you_mean;
use crate::rows::Rows;
use crate::slot::{KeyBuffer, Slot};
use flyball_core::DecisionId;
use std::sync::Arc;

/// Separates the keys of a subject that has several.
const BETWEEN: u8 = 0x1f;

#[derive(Clone, Debug)]
pub struct RecordPlan {
    /// The author requires records: without a journal, nothing is decided.
    pub demanded: bool,
    pub durability: Durability,
    pub when_unavailable: WhenUnavailable,
    sample: f64,
    /// By field: never record its value.
    masked: Vec<bool>,
    /// By feature: derived from a masked field, so its value is never recorded either.
    masked_features: Vec<bool>,
    /// The fields that identify the subject.
    keys: Vec<Slot>,
}

impl RecordPlan {
    pub(crate) fn compile(
        document: &DecisionDocument,
        fields: &[Field],
        features: &[FeaturePlan],
        faults: &mut Faults,
    ) -> RecordPlan {
        let said = document.record.clone().unwrap_or_default();
        check(&said, fields, faults);
        let key = |(slot, field): (usize, &Field)| {
            let key = document.input.iter().any(|input| input.key && *input.name == *field.name);
            key.then(|| Slot { slot, values: Arc::clone(&field.values) })
        };
        let masked: Vec<bool> =
            fields.iter().map(|field| said.mask.iter().any(|name| **name == *field.name)).collect();
        RecordPlan {
            masked_features: masked_features(&masked, features),
            demanded: document.record.is_some(),
            durability: said.durability,
            when_unavailable: said.when_unavailable,
            sample: said.sample,
            masked,
            keys: fields.iter().enumerate().filter_map(key).collect(),
        }
    }

    pub fn masked(&self, field: usize) -> bool {
        self.masked[field]
    }

    pub fn masked_feature(&self, feature: usize) -> bool {
        self.masked_features[feature]
    }

    pub fn masks(&self) -> impl Iterator<Item = usize> + Clone {
        self.masked.iter().enumerate().filter(|(_, masked)| **masked).map(|(field, _)| field)
    }

    /// Whether a record is complete or only has the decision. Derived from the id's random bits, so it is
    /// stable.
    pub fn whole(&self, id: DecisionId) -> bool {
        const BITS: u32 = 53;
        let drawn = (id.0 & ((1 << BITS) - 1)) as u64;
        (drawn as f64) < self.sample * (1_u64 << BITS) as f64
    }

    /// The subject of a row as text; empty without a key field.
    pub fn subject(&self, rows: &Rows, row: usize, out: &mut Vec<u8>) {
        if self.keys.iter().all(|key| key.text(rows, row, &mut KeyBuffer::new()).is_none()) {
            return;
        }
        for (place, key) in self.keys.iter().enumerate() {
            if place > 0 {
                out.push(BETWEEN);
            }
            out.extend_from_slice(key.text(rows, row, &mut KeyBuffer::new()).unwrap_or_default().as_bytes());
        }
    }

    /// The description for `flyball plan`.
    pub(crate) fn describe(&self, fields: &[Field]) -> Vec<String> {
        if !self.demanded {
            return Vec::new();
        }
        let (durability, unavailable) = (self.durability.label(), self.when_unavailable.label());
        let mut lines = vec![format!("{durability}; if records cannot be stored: {unavailable}")];
        if self.sample < 1.0 {
            lines.push(format!("{} of the records have their input and features", self.sample));
        }
        lines.extend(self.masks().map(|field| format!("{}: never recorded", fields[field].name)));
        lines
    }
}

/// Features are compiled in order: each depends on fields and earlier features.
fn masked_features(fields: &[bool], features: &[FeaturePlan]) -> Vec<bool> {
    let mut masked = Vec::with_capacity(features.len());
    for feature in features {
        let such = |slot: usize| match fields.get(slot) {
            Some(masked) => *masked,
            None => features.iter().zip(&masked).any(|(before, masked)| before.slot == slot && *masked),
        };
        let reveals = feature.from.reveals(&such);
        masked.push(reveals);
    }
    masked
}

fn check(said: &RecordDocument, fields: &[Field], faults: &mut Faults) {
    if !(0.0..=1.0).contains(&said.sample) {
        faults.add("record.sample", said.sample.to_string(), "a number from 0 to 1");
    }
    for (place, name) in said.mask.iter().enumerate() {
        let path = format!("record.mask[{place}]");
        if !fields.iter().any(|field| *field.name == **name) {
            let near = did_you_mean(name, fields.iter().map(|field| &*field.name));
            faults.add(path, name.as_str(), format!("a field of the input{near}"));
        } else if said.mask[..place].contains(name) {
            faults.add(path, name.as_str(), "each field once");
        }
    }
}
