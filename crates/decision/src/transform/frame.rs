//! The columns of a few rows during computation: consecutive, each one row long.

use super::Transforms;
use crate::rows::Rows;
use crate::value::TextRef;

/// A reference to a text of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Cell {
    #[default]
    Missing,
    /// In the request.
    Row(TextRef),
    /// A value of a category, by slot and index.
    Category(u32, u32),
    /// In the document.
    Constant(u32),
    /// Made by a step.
    Made(TextRef),
}

#[derive(Debug, Default)]
pub(crate) struct Frame {
    rows: usize,
    pub(super) numbers: Vec<f64>,
    pub(super) texts: Vec<Cell>,
    pub(super) times: Vec<Option<i64>>,
    pub(super) made: String,
}

impl Frame {
    /// Reserves this many columns. Old contents stay: every step writes before another reads.
    pub(super) fn begin(&mut self, rows: usize, [numbers, texts, times]: [usize; 3]) {
        self.rows = rows;
        self.made.clear();
        enlarge(&mut self.numbers, numbers * rows);
        enlarge(&mut self.texts, texts * rows);
        enlarge(&mut self.times, times * rows);
    }

    pub(crate) fn numbers(&self, column: usize) -> &[f64] {
        &self.numbers[column * self.rows..][..self.rows]
    }

    pub(crate) fn texts(&self, column: usize) -> &[Cell] {
        &self.texts[column * self.rows..][..self.rows]
    }

    pub(super) fn times(&self, column: usize) -> &[Option<i64>] {
        &self.times[column * self.rows..][..self.rows]
    }

    pub(super) fn numbers_mut(&mut self, column: usize) -> &mut [f64] {
        &mut self.numbers[column * self.rows..][..self.rows]
    }

    pub(super) fn texts_mut(&mut self, column: usize) -> &mut [Cell] {
        &mut self.texts[column * self.rows..][..self.rows]
    }

    pub(super) fn times_mut(&mut self, column: usize) -> &mut [Option<i64>] {
        &mut self.times[column * self.rows..][..self.rows]
    }

    /// A column, and a later one for writing.
    pub(super) fn numbers_from(&mut self, of: usize, into: usize) -> (&[f64], &mut [f64]) {
        let (before, behind) = self.numbers.split_at_mut(into * self.rows);
        (&before[of * self.rows..][..self.rows], &mut behind[..self.rows])
    }
}

fn enlarge<T: Clone + Default>(column: &mut Vec<T>, length: usize) {
    if column.len() < length {
        column.resize(length, T::default());
    }
}

/// The memory that cell texts refer to.
#[derive(Clone, Copy)]
pub(crate) struct TextPool<'a> {
    pub(crate) transforms: &'a Transforms,
    pub(crate) rows: &'a Rows,
    pub(crate) made: &'a str,
}

impl<'a> TextPool<'a> {
    pub(crate) fn new(transforms: &'a Transforms, rows: &'a Rows, frame: &'a Frame) -> TextPool<'a> {
        TextPool { transforms, rows, made: &frame.made }
    }

    pub(crate) fn text(&self, cell: Cell) -> Option<&'a str> {
        match cell {
            Cell::Missing => None,
            Cell::Row(text) => Some(self.rows.text(text)),
            Cell::Category(slot, place) => {
                self.transforms.categories[slot as usize].get(place as usize).map(String::as_str)
            }
            Cell::Constant(place) => Some(&self.transforms.constants[place as usize]),
            Cell::Made(text) => Some(&self.made[text.start as usize..][..text.length as usize]),
        }
    }
}
