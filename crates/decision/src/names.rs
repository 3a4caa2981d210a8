//! What expressions, guards and transforms may name: each field and feature with its slot and kind.

use crate::value::Kind;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Name {
    pub slot: usize,
    pub kind: Kind,
    /// Of a category, with what unknown values are taken for; else empty.
    pub values: Arc<[String]>,
    /// Its value is not told in errors: it is personal, or a feature's, which may be made of what is.
    pub hidden: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Names {
    named: HashMap<String, Name>,
    crossed: HashSet<String>,
    /// The decision has no model, so nothing may read `score`.
    pub unscored: bool,
}

impl Names {
    pub fn add(&mut self, name: &str, entry: Name) {
        self.named.insert(name.to_owned(), entry);
    }

    pub fn get(&self, name: &str) -> Option<&Name> {
        self.named.get(name)
    }

    /// A column that is made of several fields: nothing may read it, but reasons tell of it under its own name.
    pub fn add_crossed(&mut self, name: &str) {
        self.crossed.insert(name.to_owned());
    }

    /// Whether a reason from a model may be about it.
    pub fn has_reasons(&self, name: &str) -> bool {
        self.named.contains_key(name) || self.crossed.contains(name)
    }

    /// For "did you mean": every name there is.
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
