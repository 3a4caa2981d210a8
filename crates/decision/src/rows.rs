//! The rows of one request: a slot for each field and feature, and their texts. Reused.

use crate::value::{TextRef, Value};
use flyball_core::FieldFault;

flyball_core::labelled! {
    /// The origin of a feature's value, for the record.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Origin {
        /// Not known yet.
        #[default]
        None => "none",
        Window => "window",
        Cache => "cache",
        Source => "source",
        /// Too old, but used as declared.
        Stale => "stale",
        Computed => "computed",
        /// The declared default for a missing value.
        Declared => "declared",
        /// Supplied by a scored file.
        Given => "given",
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FeatureFact {
    pub origin: Origin,
    pub age_ms: Option<u32>,
}

/// A route that a row chose itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenRoute {
    Variant(usize),
    Rules,
}

#[derive(Debug, Default)]
pub struct Rows {
    fields: usize,
    features: usize,
    values: Vec<Value>,
    facts: Vec<FeatureFact>,
    text: String,
    ids: Vec<Option<TextRef>>,
    /// Rows that chose a route, in row order.
    routes: Vec<(u32, ChosenRoute)>,
    /// In row order.
    faults: Vec<(u32, FieldFault)>,
}

impl Rows {
    /// Clears it for a request with this many fields and features.
    pub fn begin(&mut self, fields: usize, features: usize) {
        (self.fields, self.features) = (fields, features);
        self.values.clear();
        self.facts.clear();
        self.text.clear();
        self.ids.clear();
        self.routes.clear();
        self.faults.clear();
    }

    pub(crate) fn set_route(&mut self, row: usize, route: ChosenRoute) {
        self.routes.push((row as u32, route));
    }

    /// The route that a row chose itself.
    pub fn route(&self, row: usize) -> Option<ChosenRoute> {
        let place = self.routes.partition_point(|&(of, _)| (of as usize) < row);
        self.routes.get(place).filter(|(of, _)| *of as usize == row).map(|(_, route)| *route)
    }

    /// Adds a row with all values missing.
    pub fn push(&mut self, id: Option<&str>) -> usize {
        let id = id.map(|id| self.keep(id));
        self.ids.push(id);
        self.values.resize(self.values.len() + self.slots(), Value::Missing);
        self.facts.resize(self.facts.len() + self.features, FeatureFact::default());
        self.ids.len() - 1
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Fields first, features after them.
    fn slots(&self) -> usize {
        self.fields + self.features
    }

    pub fn value(&self, row: usize, slot: usize) -> Value {
        self.values[row * self.slots() + slot]
    }

    pub fn set(&mut self, row: usize, slot: usize, value: Value) {
        let place = row * self.slots() + slot;
        self.values[place] = value;
    }

    /// `feature` is the index among features.
    pub fn set_feature(&mut self, row: usize, feature: usize, value: Value, fact: FeatureFact) {
        self.set(row, self.fields + feature, value);
        self.facts[row * self.features + feature] = fact;
    }

    pub fn fact(&self, row: usize, feature: usize) -> FeatureFact {
        self.facts[row * self.features + feature]
    }

    /// Stores a text for the duration of the request. Bounded because bodies are.
    pub fn keep(&mut self, text: &str) -> TextRef {
        let start = self.text.len() as u32;
        self.text.push_str(text);
        TextRef { start, length: text.len() as u32 }
    }

    pub fn text(&self, text: TextRef) -> &str {
        &self.text[text.start as usize..][..text.length as usize]
    }

    pub fn id(&self, row: usize) -> Option<&str> {
        self.ids[row].map(|id| self.text(id))
    }

    pub fn fault(&mut self, row: usize, fault: FieldFault) {
        let end = self.faults.partition_point(|&(of, _)| of as usize <= row);
        self.faults.insert(end, (row as u32, fault));
    }

    pub fn sound(&self, row: usize) -> bool {
        self.faults(row).next().is_none()
    }

    pub fn faults(&self, row: usize) -> impl Iterator<Item = &FieldFault> {
        let start = self.faults.partition_point(|&(of, _)| (of as usize) < row);
        self.faults[start..].iter().take_while(move |(of, _)| *of as usize == row).map(|(_, fault)| fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_row_has_every_slot_missing_and_texts_stay_with_their_request() {
        let mut rows = Rows::default();
        rows.begin(2, 1);
        let row = rows.push(Some("a"));
        let text = rows.keep("né");
        rows.set(row, 1, Value::Text(text));
        rows.set_feature(row, 0, Value::Float(2.0), FeatureFact { origin: Origin::Window, age_ms: None });
        assert_eq!((rows.id(row), rows.text(text)), (Some("a"), "né"));
        assert_eq!(
            [0, 1, 2].map(|slot| rows.value(row, slot)),
            [Value::Missing, Value::Text(text), Value::Float(2.0)]
        );
        rows.begin(1, 0);
        assert!(rows.is_empty());
        let row = rows.push(None);
        assert_eq!((rows.id(row), rows.value(row, 0)), (None, Value::Missing));
    }
}
