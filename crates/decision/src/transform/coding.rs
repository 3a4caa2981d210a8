//! A table from texts to numbers, for ordinal, one-hot and target encoding. A list by index for categories.

use super::frame::{Cell, TextPool};
use crate::field::TextMap;

#[derive(Clone, Debug)]
pub(super) struct Coding<T> {
    by_text: TextMap<T>,
    /// By the index of the category's value; empty for other columns.
    by_place: Box<[Option<T>]>,
}

impl<T: Copy> Coding<T> {
    pub(super) fn new(by_text: TextMap<T>, category: &[String]) -> Coding<T> {
        let by_place = category.iter().map(|value| by_text.get(value.as_str()).copied()).collect();
        Coding { by_text, by_place }
    }

    /// None for a text outside the table. The outer none: missing.
    pub(super) fn get(&self, cell: Cell, words: &TextPool<'_>) -> Option<Option<T>> {
        match cell {
            Cell::Category(_, place) if !self.by_place.is_empty() => Some(self.by_place[place as usize]),
            cell => words.text(cell).map(|text| self.by_text.get(text).copied()),
        }
    }
}
