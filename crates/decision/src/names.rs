//! What expressions, guards and transforms may name: each field and feature with its slot and kind.

use crate::value::Kind;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Name {
    pub slot: usize,
    pub kind: Kind,
    /// Of a category, with what unknown values are taken for; else empty.
    pub values: Arc<[String]>,
}

#[derive(Clone, Debug, Default)]
pub struct Names(HashMap<String, Name>);

impl Names {
    pub fn add(&mut self, name: &str, entry: Name) {
        self.0.insert(name.to_owned(), entry);
    }

    pub fn get(&self, name: &str) -> Option<&Name> {
        self.0.get(name)
    }

    /// For "did you mean": every name there is.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
