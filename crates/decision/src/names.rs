//! The names that expressions, guards and transforms may use, with slot and kind.

use crate::value::Kind;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Name {
    pub slot: usize,
    pub kind: Kind,
    /// Values of a category with the unknown replacement; else empty.
    pub values: Arc<[String]>,
    /// Errors omit its value: it is personal, or a feature that may be derived from personal data.
    pub hidden: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Names {
    named: HashMap<String, Name>,
    crossed: HashSet<String>,
    /// The decision has no model, so `score` is not available.
    pub unscored: bool,
}

impl Names {
    pub fn add(&mut self, name: &str, entry: Name) {
        self.named.insert(name.to_owned(), entry);
    }

    pub fn get(&self, name: &str) -> Option<&Name> {
        self.named.get(name)
    }

    /// Adds a column made of several fields: not readable, but reasons may name it.
    pub fn add_crossed(&mut self, name: &str) {
        self.crossed.insert(name.to_owned());
    }

    /// Whether a model's reason may name it.
    pub fn has_reasons(&self, name: &str) -> bool {
        self.named.contains_key(name) || self.crossed.contains(name)
    }

    /// All names, for "did you mean".
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossed_column_has_reasons_and_nothing_can_read_it() {
        let mut names = Names::default();
        names.add("amount", Name { slot: 0, kind: Kind::Float, values: Arc::default(), hidden: false });
        names.add_crossed("corridor");
        assert_eq!(["amount", "corridor", "other"].map(|name| names.has_reasons(name)), [true, true, false]);
        assert!(names.get("corridor").is_none());
    }
}
