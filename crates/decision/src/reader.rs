//! Reads a request's fields row by row into slot values or faults.
//!
//! Allocates nothing for a valid row. Finds names without hashing if they come in declared order.

use crate::field::{Field, shown};
use crate::nearest::did_you_mean;
use crate::program::Program;
use crate::rows::{ChosenRoute, FeatureFact, Origin, Rows};
use crate::schema::NAME_BYTES_MAX;
use crate::value::Value;
use crate::{feature::FEATURES_MAX, schema::FIELDS_MAX};
use bytestring::ByteString;
use flyball_core::{FieldFault, RowRoute, RowSink, Scalar};

/// Maximum faults reported for one row.
const ROW_FAULTS_MAX: usize = 16;
/// Maximum suggestions for unknown names in a request: searching costs more than parsing.
const SUGGESTIONS_MAX: u32 = 8;

const WORDS: usize = (FIELDS_MAX + FEATURES_MAX) / 64;

/// Call `finish` after the last field.
#[derive(Debug)]
pub struct RowReader<'r> {
    program: &'r Program,
    rows: &'r mut Rows,
    /// Features may be sent too, by name.
    given: bool,
    /// The index of the next field if they come in order.
    next: usize,
    sent: Marks,
    /// Slots that need neither a default nor a fault.
    settled: Marks,
    row_faults: usize,
    suggestions: u32,
}

impl<'r> RowReader<'r> {
    pub(crate) fn new(program: &'r Program, rows: &'r mut Rows, given: bool) -> RowReader<'r> {
        let (sent, settled) = Default::default();
        RowReader { program, rows, given, next: 0, sent, settled, row_faults: 0, suggestions: 0 }
    }

    /// Ends the last row: sets defaults and reports missing required fields.
    pub fn finish(mut self) {
        self.end_row();
    }

    fn end_row(&mut self) {
        let Some(row) = self.rows.len().checked_sub(1) else { return };
        let program = self.program;
        for place in self.settled.unset(program.fields.len()) {
            let field = &program.fields[place];
            if let Some(default) = &field.default {
                let value = default.place(self.rows);
                self.rows.set(row, place, value);
            } else if field.required {
                self.fault(&field.name, None, format!("{}; it is required", field.allowed()));
            }
        }
    }

    /// The index of a name: fields first, then features.
    fn find(&self, name: &str) -> Option<usize> {
        let program = self.program;
        if program.fields.get(self.next).is_some_and(|field| &*field.name == name) {
            return Some(self.next);
        }
        let place = *program.places.get(name)? as usize;
        (self.given || place < program.fields.len()).then_some(place)
    }

    fn fault(&mut self, field: &str, is: Option<String>, allowed: String) {
        let Some(row) = self.rows.len().checked_sub(1).filter(|_| self.row_faults < ROW_FAULTS_MAX) else {
            return;
        };
        self.row_faults += 1;
        self.rows.fault(row, FieldFault { field: ByteString::from(field), is, allowed });
    }

    fn unknown(&mut self, name: &str, value: Scalar<'_>) {
        let mut near = String::new();
        if name.len() <= NAME_BYTES_MAX && self.suggestions < SUGGESTIONS_MAX {
            self.suggestions += 1;
            near = did_you_mean(name, self.program.fields.iter().map(|field| &*field.name));
        }
        let cut = name.char_indices().nth(NAME_BYTES_MAX).map_or(name.len(), |(cut, _)| cut);
        // The value may be anything, so only its type is reported.
        let is = match value {
            Scalar::Null => "null",
            Scalar::Bool(_) => "a bool",
            Scalar::Int(_) | Scalar::Float(_) => "a number",
            Scalar::Text(_) => "a text",
            Scalar::Other(what) => what,
        };
        self.fault(&name[..cut], Some(is.to_owned()), format!("a field of the input{near}"));
    }

    fn refused(&mut self, field: &Field, value: Scalar<'_>, allowed: String) {
        let is = if field.pii { Some("hidden".to_owned()) } else { shown(value) };
        self.fault(&field.name, is, allowed);
    }
}

impl RowSink for RowReader<'_> {
    fn row(&mut self, id: Option<&str>) {
        self.end_row();
        self.rows.push(id);
        (self.sent, self.settled) = Default::default();
        (self.next, self.row_faults) = (0, 0);
    }

    fn field(&mut self, name: &str, value: Scalar<'_>) {
        let Some(row) = self.rows.len().checked_sub(1).filter(|_| self.row_faults < ROW_FAULTS_MAX) else {
            return;
        };
        let program = self.program;
        let Some(place) = self.find(name) else { return self.unknown(name, value) };
        self.next = place + 1;
        let fields = program.fields.len();
        let field = program.fields.get(place).unwrap_or_else(|| &program.features[place - fields].field);
        if !self.sent.set(place) {
            return self.refused(field, value, "each field once in a row".to_owned());
        }
        let taken = match value {
            // A null field counts as not sent; a null feature as missing.
            Scalar::Null if place < fields => return,
            Scalar::Null => Some(Value::Missing),
            value => field.take(value, self.rows),
        };
        self.settled.set(place);
        match taken {
            Some(value) if place < fields => self.rows.set(row, place, value),
            Some(value) => {
                let fact = FeatureFact { origin: Origin::Given, age_ms: None };
                self.rows.set_feature(row, place - fields, value, fact);
            }
            None => self.refused(field, value, field.allowed()),
        }
    }

    fn accepts_routes(&self) -> bool {
        self.given
    }

    fn route(&mut self, route: RowRoute<'_>) {
        let Some(row) = self.rows.len().checked_sub(1) else { return };
        let variants = &self.program.variants;
        match route {
            RowRoute::Rules => self.rows.set_route(row, ChosenRoute::Rules),
            RowRoute::Variant(name) => match variants.iter().position(|variant| *variant.name == *name) {
                Some(variant) => self.rows.set_route(row, ChosenRoute::Variant(variant)),
                None => {
                    let near = did_you_mean(name, variants.iter().map(|variant| &*variant.name));
                    self.fault("as", shown(Scalar::Text(name)), format!("a variant of the decision{near}"));
                }
            },
        }
    }
}

/// One bit for each slot.
#[derive(Debug, Default)]
struct Marks([u64; WORDS]);

impl Marks {
    /// Sets the bit; returns whether it was unset.
    fn set(&mut self, place: usize) -> bool {
        let (word, bit) = (&mut self.0[place / 64], 1 << (place % 64));
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    /// The unset indexes below `end`. Takes one step for each word and each such index.
    fn unset(&self, end: usize) -> impl Iterator<Item = usize> + use<> {
        let words = self.0;
        (0..end.div_ceil(64)).flat_map(move |at| {
            let left = end - at * 64;
            let mask = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
            let mut open = !words[at] & mask;
            std::iter::from_fn(move || {
                let bit = open.trailing_zeros() as usize;
                open &= open.wrapping_sub(1);
                (bit < 64).then_some(at * 64 + bit)
            })
        })
    }
}
