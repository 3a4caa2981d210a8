//! The columns known while compiling transforms: name, kind and source.

use super::map::Map;
use super::step::{Step, TextToNumber, TimeToNumber};
use super::{COLUMNS_MAX, MADE_MAX, Transforms};
use crate::faults::Faults;
use crate::field::Field;
use crate::nearest::did_you_mean;
use crate::schema::VALUES_MAX;
use crate::value::Kind;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Maximum text bytes that steps make for one row; a cross of crosses grows fast.
const MADE_BYTES_MAX: usize = 1 << 20;

/// The register of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Register {
    Number(usize),
    Text(usize),
    Time(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) register: Register,
    /// Whole numbers only.
    pub(super) whole: bool,
    pub(crate) may_miss: bool,
    /// The slot, if the texts are category values.
    pub(super) category: Option<usize>,
    /// Maximum bytes of a text.
    pub(super) bytes_max: usize,
    /// The source field or feature; for a cross of several, its own name.
    pub(crate) source: Arc<str>,
}

impl Register {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Register::Number(_) => "numbers",
            Register::Text(_) => "texts",
            Register::Time(_) => "times",
        }
    }
}

pub(super) struct Build<'f> {
    pub(super) faults: &'f mut Faults,
    steps: Vec<Step>,
    columns: HashMap<String, Column>,
    /// By slot, the values of categories.
    categories: Vec<Arc<[String]>>,
    constants: Vec<Arc<str>>,
    /// Columns of numbers, texts and times so far.
    sizes: [usize; 3],
    made_bytes: usize,
    /// Remaining values of text tables.
    pub(super) values_left: usize,
}

impl<'f> Build<'f> {
    pub(super) fn new(faults: &'f mut Faults) -> Build<'f> {
        Build {
            faults,
            steps: Vec::new(),
            columns: HashMap::new(),
            categories: Vec::new(),
            constants: Vec::new(),
            sizes: [0; 3],
            made_bytes: 0,
            values_left: VALUES_MAX,
        }
    }

    pub(super) fn finish(self, lines: Vec<String>) -> Transforms {
        let Build { steps, columns, categories, constants, sizes, .. } = self;
        Transforms { steps, columns, categories, constants, sizes, lines }
    }

    /// The values of a category column; else empty.
    pub(super) fn category(&self, column: &Column) -> Arc<[String]> {
        column.category.map_or_else(|| Arc::from([]), |slot| Arc::clone(&self.categories[slot]))
    }

    /// Adds the initial column of a field or feature. Slots come in order.
    pub(super) fn load(&mut self, slot: usize, field: &Field) {
        let (register, step) = match field.kind {
            Kind::Bool | Kind::Int | Kind::Float => {
                let into = self.new_number(1);
                (Register::Number(into), Step::Number { slot, into })
            }
            Kind::Text | Kind::Category => {
                let into = self.new_text();
                (Register::Text(into), Step::Text { slot, into })
            }
            Kind::Time => {
                let into = self.new_time();
                (Register::Time(into), Step::Time { slot, into })
            }
        };
        self.push(step);
        self.categories.push(Arc::clone(&field.values));
        let longest = field.values.iter().map(String::len).max();
        let column = Column {
            register,
            whole: matches!(field.kind, Kind::Bool | Kind::Int),
            may_miss: !field.required && field.default.is_none(),
            category: (field.kind == Kind::Category).then_some(slot),
            bytes_max: longest.unwrap_or(field.length_max),
            source: Arc::clone(&field.name),
        };
        self.columns.insert(field.name.to_string(), column);
    }

    /// Reserves this many number columns and returns the first.
    pub(super) fn new_number(&mut self, count: usize) -> usize {
        self.sizes[0] += count;
        self.sizes[0] - count
    }

    pub(super) fn new_text(&mut self) -> usize {
        self.sizes[1] += 1;
        self.sizes[1] - 1
    }

    fn new_time(&mut self) -> usize {
        self.sizes[2] += 1;
        self.sizes[2] - 1
    }

    /// The columns `of` a transform with their indexes; unknown ones are faults.
    pub(super) fn columns(&mut self, path: &str, of: &[String]) -> Vec<(usize, String, Column)> {
        let path = format!("{path}.of");
        if of.is_empty() || of.len() > COLUMNS_MAX {
            self.faults.add(path, of.len(), format!("1 to {COLUMNS_MAX} columns"));
            return Vec::new();
        }
        let mut found: Vec<(usize, String, Column)> = Vec::with_capacity(of.len());
        let mut seen = std::collections::HashSet::new();
        for (place, name) in of.iter().enumerate() {
            if !seen.insert(name) {
                self.faults.add(path.as_str(), name.as_str(), "each column once");
            } else if let Some(column) = self.columns.get(name) {
                found.push((place, name.clone(), column.clone()));
            } else {
                let near = did_you_mean(name, self.columns.keys().map(String::as_str));
                self.faults.add(
                    path.as_str(),
                    name.as_str(),
                    format!("a column that exists at this point{near}"),
                );
            }
        }
        found
    }

    /// Checks for room for `count` more columns; else adds a fault.
    pub(super) fn room(&mut self, path: &str, count: usize) -> bool {
        let made: usize = self.sizes.iter().sum();
        let fits =
            count <= COLUMNS_MAX && self.columns.len() + count <= COLUMNS_MAX + 1 && made + count <= MADE_MAX;
        if !fits {
            let allowed = format!("at most {COLUMNS_MAX} columns, and {MADE_MAX} made by all transforms");
            self.faults.add(path, count, allowed);
        }
        fits
    }

    /// Checks for room for this many text bytes a row; else adds a fault.
    pub(super) fn room_for_text(&mut self, path: &str, bytes: usize) -> bool {
        self.made_bytes = self.made_bytes.saturating_add(bytes);
        let fits = self.made_bytes <= MADE_BYTES_MAX;
        if !fits {
            let allowed =
                format!("at most {MADE_BYTES_MAX} bytes of text made for a row; shorten `length_max`");
            self.faults.add(path, self.made_bytes, allowed);
        }
        fits
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub(super) fn constant(&mut self, text: &str) -> u32 {
        self.constants.push(text.into());
        self.constants.len() as u32 - 1
    }

    /// A number column computed by `map`, without a name yet.
    pub(super) fn map(&mut self, of: usize, map: Map) -> Register {
        let into = self.new_number(1);
        self.push(Step::Map { of, into, map });
        Register::Number(into)
    }

    pub(super) fn read(&mut self, of: usize, read: TextToNumber) -> Register {
        let into = self.new_number(1);
        self.push(Step::TextToNumber { of, into, read });
        Register::Number(into)
    }

    pub(super) fn read_time(&mut self, of: usize, read: TimeToNumber) -> Register {
        let into = self.new_number(1);
        self.push(Step::TimeToNumber { of, into, read });
        Register::Number(into)
    }

    pub(super) fn impute_time(&mut self, of: usize, nanos: i64) -> Register {
        let into = self.new_time();
        self.push(Step::ImputeTime { of, into, nanos });
        Register::Time(into)
    }

    /// Replaces the column of that name.
    pub(super) fn replace(&mut self, name: &str, column: Column) {
        self.columns.insert(name.to_owned(), column);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.columns.remove(name);
    }

    /// Adds a column under an unused name.
    pub(super) fn add(&mut self, path: &str, name: String, column: Column) {
        match self.columns.entry(name) {
            Entry::Vacant(entry) => _ = entry.insert(column),
            Entry::Occupied(entry) => {
                self.faults.add(path, entry.key().as_str(), "columns under names that are not taken yet");
            }
        }
    }

    /// A column of numbers, or a fault.
    pub(super) fn number(&mut self, path: &str, name: &str, column: &Column) -> Option<usize> {
        match column.register {
            Register::Number(of) => Some(of),
            other => {
                let allowed =
                    format!("columns of numbers; this one has {}, encode or cast it first", other.label());
                self.faults.add(format!("{path}.of"), name, allowed);
                None
            }
        }
    }

    /// A column of texts, or a fault.
    pub(super) fn text(&mut self, path: &str, name: &str, column: &Column) -> Option<usize> {
        match column.register {
            Register::Text(of) => Some(of),
            other => {
                let allowed = format!("columns of texts; this one has {}, cast it first", other.label());
                self.faults.add(format!("{path}.of"), name, allowed);
                None
            }
        }
    }

    /// Checks that a list has one item for each column; else adds a fault.
    pub(super) fn as_long(&mut self, path: &str, key: &str, length: usize, of: usize) -> bool {
        if length != of {
            self.faults.add(format!("{path}.{key}"), length, format!("{of}, one for each column"));
        }
        length == of
    }

    /// Checks that the numbers are finite; else adds a fault.
    pub(super) fn finite(&mut self, path: &str, key: &str, numbers: impl IntoIterator<Item = f64>) -> bool {
        let odd = numbers.into_iter().find(|number| !number.is_finite());
        if let Some(odd) = odd {
            self.faults.add(format!("{path}.{key}"), odd.to_string(), "finite numbers");
        }
        odd.is_none()
    }
}
