//! The features of a decision: their sources, and reactions to missing values.
//!
//! The walk queries stores and windows; this module has the definitions and the accepted values.

use crate::document::{FeatureDocument, LookupDocument, Reaction, SourceDocument, WindowDocument};
use crate::field::{Constant, Field};
use crate::names::Name;
use crate::nearest::did_you_mean;
use crate::policy::Expr;
use crate::schema::Scope;
use crate::slot::Slot;
use crate::value::Kind;
use flyball_core::WindowOp;
use std::sync::Arc;

pub(crate) const FEATURES_MAX: usize = 128;
/// The range that the features crate supports: one second to 400 days.
const WINDOW_MS: std::ops::RangeInclusive<u64> = 1_000..=400 * 86_400_000;
/// Maximum length of a text from a store.
const TEXT_BYTES_MAX: usize = 1024;

#[derive(Clone, Debug)]
pub struct FeaturePlan {
    pub name: Arc<str>,
    pub slot: usize,
    pub from: FeatureFrom,
    pub max_age_ms: Option<u64>,
    pub on_missing: CompiledReaction,
    pub on_stale: CompiledReaction,
    pub on_error: CompiledReaction,
    pub(crate) field: Field,
}

impl FeaturePlan {
    /// The field that describes its values.
    pub fn field(&self) -> &Field {
        &self.field
    }
}

#[derive(Clone, Debug)]
pub enum FeatureFrom {
    /// `of` is a number for `sum` and `mean`, a text for `distinct`.
    Window {
        op: WindowOp,
        of: Option<Slot>,
        by: Slot,
        last_ms: u64,
        current: bool,
        source: Option<usize>,
    },
    Lookup {
        source: usize,
        key: Slot,
        field: Arc<str>,
    },
    Compute(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub enum CompiledReaction {
    Missing,
    /// The last known value; without one it is missing.
    UseStale,
    Fault,
    Value(Constant),
}

/// The features in order. A faulty one keeps its name, so that references are still checked.
pub(crate) fn features(
    documents: &[FeatureDocument],
    fields: &[Field],
    sources: &[(Arc<str>, SourceDocument)],
    scope: &mut Scope<'_>,
) -> Vec<FeaturePlan> {
    if documents.len() > FEATURES_MAX {
        scope.faults.add("features", documents.len(), format!("at most {FEATURES_MAX} features"));
    }
    let mut features = Vec::new();
    for (place, document) in documents.iter().take(FEATURES_MAX).enumerate() {
        if !scope.name("features", &document.name) {
            continue;
        }
        let path = format!("features.{}", document.name);
        let mut field = field(document, &path, scope);
        let from = Compiler { fields, sources, scope: &mut *scope }.from(document, &path);
        let personal = |slot: usize| match fields.get(slot) {
            Some(field) => field.pii,
            None => features.iter().any(|feature: &FeaturePlan| feature.slot == slot && feature.field.pii),
        };
        field.pii = from.as_ref().is_some_and(|from| from.reveals(&personal));
        // Only after compiling it: an expression sees earlier features, not itself.
        let slot = fields.len() + place;
        let entry = Name { slot, kind: field.kind, values: Arc::clone(&field.values), hidden: true };
        scope.names.add(&document.name, entry);
        let reaction = |key: &str, reaction: &Reaction, scope: &mut Scope<'_>| {
            compile_reaction(&format!("{path}.{key}"), reaction, &field, scope)
        };
        let on_missing = reaction("on_missing", &document.on_missing, scope);
        let on_stale = reaction("on_stale", &document.on_stale, scope);
        let on_error = reaction("on_error", &document.on_error, scope);
        if document.max_age_ms == Some(0) {
            scope.faults.add(format!("{path}.max_age_ms"), 0, "at least 1");
        }
        if let Some(from) = from {
            let (name, max_age_ms) = (Arc::clone(&field.name), document.max_age_ms);
            features.push(FeaturePlan {
                name,
                slot,
                from,
                max_age_ms,
                on_missing,
                on_stale,
                on_error,
                field,
            });
        }
    }
    features
}

impl FeatureFrom {
    /// Whether its values reveal those of the given slots: a window over such values does, one keyed by them
    /// does not.
    pub(crate) fn reveals(&self, such: &dyn Fn(usize) -> bool) -> bool {
        match self {
            FeatureFrom::Window { of, .. } => of.as_ref().is_some_and(|of| such(of.slot)),
            FeatureFrom::Lookup { .. } => false,
            FeatureFrom::Compute(expr) => expr.reads().iter().any(|&slot| such(slot)),
        }
    }
}

fn field(document: &FeatureDocument, path: &str, scope: &mut Scope<'_>) -> Field {
    let (values, places, unknown) =
        scope.values(path, document.kind, &document.values, document.unknown.as_deref());
    Field {
        name: document.name.as_str().into(),
        values,
        places,
        unknown,
        length_max: TEXT_BYTES_MAX,
        ..Field::plain(document.kind)
    }
}

fn compile_reaction(
    path: &str,
    reaction: &Reaction,
    field: &Field,
    scope: &mut Scope<'_>,
) -> CompiledReaction {
    match reaction {
        Reaction::Missing => CompiledReaction::Missing,
        Reaction::UseStale => CompiledReaction::UseStale,
        Reaction::Fault => CompiledReaction::Fault,
        Reaction::Value(value) => match field.constant(value.into()) {
            Some(constant) => CompiledReaction::Value(constant),
            None => {
                scope.faults.add(path, value.clone(), field.allowed());
                CompiledReaction::Missing
            }
        },
    }
}

/// Compiles where a feature's values come from.
struct Compiler<'a, 'f> {
    fields: &'a [Field],
    sources: &'a [(Arc<str>, SourceDocument)],
    scope: &'a mut Scope<'f>,
}

impl Compiler<'_, '_> {
    fn from(&mut self, document: &FeatureDocument, path: &str) -> Option<FeatureFrom> {
        match (&document.window, &document.lookup, &document.compute) {
            (Some(window), None, None) => self.window(window, document.kind, &format!("{path}.window")),
            (None, Some(lookup), None) => self.lookup(lookup, &format!("{path}.lookup")),
            (None, None, Some(text)) => self.compute(text, document.kind, &format!("{path}.compute")),
            _ => {
                let allowed = "exactly one of `window`, `lookup` and `compute`";
                self.scope.faults.add(path, document.name.as_str(), allowed);
                None
            }
        }
    }

    fn source(&mut self, path: String, name: &str) -> Option<usize> {
        let place = self.sources.iter().position(|(known, _)| &**known == name);
        if place.is_none() {
            let near = did_you_mean(name, self.sources.iter().map(|(known, _)| &**known));
            self.scope.faults.add(path, name, format!("the name of one of `sources`{near}"));
        }
        place
    }

    fn lookup(&mut self, lookup: &LookupDocument, path: &str) -> Option<FeatureFrom> {
        let source = self.source(format!("{path}.source"), &lookup.source);
        let key = self.scope.slot(&format!("{path}.key"), &lookup.key, self.fields, &Slot::KEYS);
        if lookup.field.is_empty() {
            self.scope.faults.add(format!("{path}.field"), "", "the name of a field of the record");
        }
        Some(FeatureFrom::Lookup { source: source?, key: key?, field: lookup.field.as_str().into() })
    }

    fn compute(&mut self, text: &str, kind: Kind, path: &str) -> Option<FeatureFrom> {
        let expr = match Expr::compile(text, &self.scope.names) {
            Ok(expr) => expr,
            Err(fault) => {
                let at = fault.at.map_or(String::new(), |at| format!(" (at byte {at})"));
                self.scope.faults.add(path, text, format!("{}{at}", fault.text));
                return None;
            }
        };
        let fits = match (expr.kind(), kind) {
            (Kind::Int, Kind::Float) => true,
            (Kind::Text | Kind::Category, Kind::Text | Kind::Category) => true,
            (computed, declared) => computed == declared,
        };
        if !fits {
            let allowed =
                format!("an expression of type {}; this one is {}", kind.label(), expr.kind().label());
            self.scope.faults.add(path, text, allowed);
            return None;
        }
        Some(FeatureFrom::Compute(expr))
    }

    fn window(&mut self, window: &WindowDocument, kind: Kind, path: &str) -> Option<FeatureFrom> {
        let by = self.scope.slot(&format!("{path}.by"), &window.by, self.fields, &Slot::KEYS);
        let of = self.aggregated(window, format!("{path}.of"));
        let source = self.shared_source(window, format!("{path}.source"));
        let faults = &mut self.scope.faults;
        if !WINDOW_MS.contains(&window.last_ms) {
            let allowed = format!("{} to {} milliseconds", WINDOW_MS.start(), WINDOW_MS.end());
            faults.add(format!("{path}.last_ms"), window.last_ms, allowed);
        }
        let of_int = matches!(&of, Ok(Some(of)) if self.fields[of.slot].kind == Kind::Int);
        let fits = match (window.op, kind) {
            (_, Kind::Float) | (WindowOp::Count | WindowOp::Distinct, Kind::Int) => true,
            (WindowOp::Sum, Kind::Int) => of_int,
            _ => false,
        };
        if !fits {
            let allowed = "`count`, `distinct` and the `sum` of an int for an int, any for a float";
            faults.add(format!("{path}.op"), kind.label(), allowed);
        }
        let (op, last_ms, current) = (window.op, window.last_ms, window.current);
        Some(FeatureFrom::Window { op, of: of.ok()?, by: by?, last_ms, current, source: source.ok()? })
    }

    /// The aggregated field; an error is in the faults.
    fn aggregated(&mut self, window: &WindowDocument, path: String) -> Result<Option<Slot>, ()> {
        let kinds: &[Kind] = match window.op {
            WindowOp::Count => &[],
            WindowOp::Sum | WindowOp::Mean => &[Kind::Int, Kind::Float],
            WindowOp::Distinct => &Slot::KEYS,
        };
        match &window.of {
            None if kinds.is_empty() => Ok(None),
            None => {
                self.scope.faults.tell(path, "the field to add or to count distinct values of");
                Err(())
            }
            Some(name) if kinds.is_empty() => {
                self.scope.faults.add(path, name.as_str(), "no field: `count` counts events");
                Err(())
            }
            Some(name) => self.scope.slot(&path, name, self.fields, kinds).map(Some).ok_or(()),
        }
    }

    /// The shared store, if named; an error is in the faults.
    fn shared_source(&mut self, window: &WindowDocument, path: String) -> Result<Option<usize>, ()> {
        let Some(name) = &window.source else { return Ok(None) };
        let place = self.source(path.clone(), name).ok_or(())?;
        if matches!(self.sources[place].1, SourceDocument::Store { .. }) {
            let allowed = "a source of kind redis; without one the window is local to this server";
            self.scope.faults.add(path, name.as_str(), allowed);
            return Err(());
        }
        Ok(Some(place))
    }
}
