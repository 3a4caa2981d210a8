//! Compiles the fields of a decision. Reports every fault of `input` at the author's path.

use crate::document::FieldDocument;
use crate::faults::Faults;
use crate::field::{Field, TextMap};
use crate::names::{Name, Names};
use crate::nearest::did_you_mean;
use crate::slot::Slot;
use crate::value::Kind;
use std::sync::Arc;

pub(crate) const FIELDS_MAX: usize = 256;
/// Maximum values of all categories of a decision together.
pub(crate) const VALUES_MAX: usize = 100_000;
pub(crate) const NAME_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 1024;
const LENGTH_MAX: u32 = 65_536;
/// The default of `length_max`.
const LENGTH_DEFAULT: u32 = 1024;

/// Words of the expression language, and `score`, which is the model's.
const RESERVED: [&str; 24] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "has",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "score",
    "size",
    "true",
    "var",
    "void",
    "while",
];

/// Shared state while compiling a program.
pub(crate) struct Scope<'f> {
    pub(crate) faults: &'f mut Faults,
    pub(crate) names: Names,
    /// Remaining category values.
    pub(crate) values_left: usize,
}

impl Scope<'_> {
    /// Checks a name of the document. `what` starts its path: `input`.
    pub(crate) fn name(&mut self, what: &str, name: &str) -> bool {
        let path = format!("{what}.{name}");
        if !identifier(name) {
            let allowed = "a letter or '_', then letters, digits and '_', at most 64 in all";
            self.faults.add(path, name, allowed);
        } else if RESERVED.contains(&name) {
            self.faults.add(path, name, "another name: this one has a meaning in expressions");
        } else if self.names.get(name).is_some() {
            self.faults.add(path, name, "a name that no other field or feature has");
        } else {
            return true;
        }
        false
    }

    /// The values of a category with their indexes; appends `unknown` if it is not listed.
    pub(crate) fn values(
        &mut self,
        path: &str,
        kind: Kind,
        values: &[String],
        unknown: Option<&str>,
    ) -> (Arc<[String]>, TextMap<u32>, Option<u32>) {
        if kind != Kind::Category {
            if !values.is_empty() {
                self.faults.add(format!("{path}.values"), values.len(), "nothing, but of a category");
            }
            if let Some(unknown) = unknown {
                self.faults.add(format!("{path}.unknown"), unknown, "nothing, but of a category");
            }
            return (Arc::from([]), TextMap::default(), None);
        }
        if values.is_empty() {
            self.faults.add(format!("{path}.values"), 0, "at least one value");
        }
        if values.len() > self.values_left {
            let allowed = format!("at most {VALUES_MAX} values in a decision");
            self.faults.add(format!("{path}.values"), values.len(), allowed);
            return (Arc::from([]), TextMap::default(), None);
        }
        self.values_left -= values.len();
        let mut places = TextMap::default();
        for (place, value) in values.iter().enumerate() {
            if value.len() > VALUE_BYTES_MAX {
                let allowed = format!("at most {VALUE_BYTES_MAX} bytes");
                self.faults.add(format!("{path}.values[{place}]"), value.len(), allowed);
            } else if places.insert(value.as_str().into(), place as u32).is_some() {
                self.faults.add(format!("{path}.values[{place}]"), value.as_str(), "each value once");
            }
        }
        let mut all = values.to_vec();
        let unknown = unknown.map(|text| {
            *places.entry(text.into()).or_insert_with(|| {
                all.push(text.to_owned());
                all.len() as u32 - 1
            })
        });
        (all.into(), places, unknown)
    }

    /// The slot of a referenced field of one of these kinds.
    pub(crate) fn slot(&mut self, path: &str, name: &str, fields: &[Field], kinds: &[Kind]) -> Option<Slot> {
        let Some(place) = fields.iter().position(|field| &*field.name == name) else {
            let near = did_you_mean(name, fields.iter().map(|field| &*field.name));
            self.faults.add(path, name, format!("a field of the input{near}"));
            return None;
        };
        let field = &fields[place];
        if !kinds.contains(&field.kind) {
            let kinds: Vec<_> = kinds.iter().map(|kind| kind.label()).collect();
            let allowed = format!("a field of type {}, not {}", kinds.join(" or "), field.kind.label());
            self.faults.add(path, name, allowed);
            return None;
        }
        Some(Slot { slot: place, values: Arc::clone(&field.values) })
    }
}

/// The fields in order, including faulty ones, so that references are still checked.
pub(crate) fn fields(documents: &[FieldDocument], scope: &mut Scope<'_>) -> Vec<Field> {
    if documents.is_empty() || documents.len() > FIELDS_MAX {
        scope.faults.add("input", documents.len(), format!("1 to {FIELDS_MAX} fields"));
    }
    let mut fields = Vec::new();
    for document in documents.iter().take(FIELDS_MAX) {
        if scope.name("input", &document.name) {
            let field = field(document, scope);
            let entry = Name {
                slot: fields.len(),
                kind: field.kind,
                values: Arc::clone(&field.values),
                hidden: field.pii,
            };
            scope.names.add(&document.name, entry);
            fields.push(field);
        }
    }
    fields
}

fn field(document: &FieldDocument, scope: &mut Scope<'_>) -> Field {
    let path = format!("input.{}", document.name);
    bounds(document, &path, scope.faults);
    let (values, places, unknown) =
        scope.values(&path, document.kind, &document.values, document.unknown.as_deref());
    let kind = document.kind;
    let length_fits = match kind {
        Kind::Text => (1..=LENGTH_MAX).contains(&document.length_max),
        _ => document.length_max == LENGTH_DEFAULT,
    };
    if !length_fits {
        let allowed = format!("1 to {LENGTH_MAX}, of a string only");
        scope.faults.add(format!("{path}.length_max"), document.length_max, allowed);
    }
    if document.key && !Slot::KEYS.contains(&kind) {
        scope.faults.add(format!("{path}.key"), true, "true only of a string, an int or a category");
    }
    let mut field = Field {
        name: document.name.as_str().into(),
        kind,
        values,
        places,
        unknown,
        min: document.min,
        max: document.max,
        length_max: document.length_max as usize,
        required: document.required && document.default.is_none(),
        default: None,
        pii: document.pii,
    };
    if let Some(default) = &document.default {
        field.default = field.constant(default.into());
        if field.default.is_none() {
            scope.faults.add(format!("{path}.default"), default.clone(), field.allowed());
        }
    }
    field
}

fn bounds(document: &FieldDocument, path: &str, faults: &mut Faults) {
    let numeric = matches!(document.kind, Kind::Int | Kind::Float | Kind::Time);
    for (key, bound) in [("min", document.min), ("max", document.max)] {
        match bound {
            Some(bound) if !numeric => {
                faults.add(format!("{path}.{key}"), bound, "nothing, but of an int, a float or a time");
            }
            Some(bound) if !bound.is_finite() => {
                faults.add(format!("{path}.{key}"), bound.to_string(), "a finite number");
            }
            _ => {}
        }
    }
    if let (Some(min), Some(max)) = (document.min, document.max)
        && min > max
    {
        faults.add(format!("{path}.min"), min, format!("at most `max`, {max}"));
    }
}

fn identifier(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Checks names of models, variants and sources: they are labels and file names too.
pub(crate) fn label(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}
