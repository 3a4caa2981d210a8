//! Caller permissions: verbs, each for all models and decisions or for some.
//!
//! One check for all transports. Knows neither how callers are authenticated nor where rights are stored.

use crate::snapshot::is_valid_name;
use crate::{Fault, FaultKind, Stage};
use std::str::FromStr;
use std::sync::Arc;

crate::labelled! {
    /// An action that a right permits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Verb {
        /// Send tensors to a model.
        Infer => "infer",
        /// Request a decision.
        Decide => "decide",
        /// Report the actual outcome of a decision.
        Outcome => "outcome",
        /// Replace a decision's outcome.
        Override => "override",
        /// Erase a subject from the journal.
        Erase => "erase",
        /// Read measurements.
        Metrics => "metrics",
        /// Load and unload models, register shared memory, seal the journal.
        Control => "control",
    }
}

impl Verb {
    /// Whether the verb can be limited to some names.
    pub const fn takes_names(self) -> bool {
        !matches!(self, Verb::Erase | Verb::Metrics)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    One(Box<str>),
    Prefix(Box<str>),
}

/// One right: `VERB`, `VERB:NAME` or `VERB:PREFIX*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    verb: Verb,
    names: Names,
}

impl Right {
    fn covers(&self, name: &str) -> bool {
        match &self.names {
            Names::All => true,
            Names::One(one) => **one == *name,
            Names::Prefix(prefix) => name.starts_with(&**prefix),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a right")]
pub struct InvalidRight;

impl FromStr for Right {
    type Err = InvalidRight;

    fn from_str(text: &str) -> Result<Right, InvalidRight> {
        let (verb, names) = match text.split_once(':') {
            None => (text, None),
            Some((verb, names)) => (verb, Some(names)),
        };
        let verb = Verb::from_label(verb).ok_or(InvalidRight)?;
        let names = match names {
            None => Names::All,
            Some(_) if !verb.takes_names() => return Err(InvalidRight),
            Some("*") => Names::All,
            Some(names) => match names.strip_suffix('*') {
                Some(prefix) if is_valid_name(prefix) => Names::Prefix(prefix.into()),
                None if is_valid_name(names) => Names::One(names.into()),
                _ => return Err(InvalidRight),
            },
        };
        Ok(Right { verb, names })
    }
}

/// A caller and its rights, as in the callers file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub caller: Arc<str>,
    pub rights: Vec<Right>,
}

/// The permissions of a request's caller.
///
/// Everything if no callers are configured, else the granted rights. Cloning does not allocate.
#[derive(Clone, Debug, Default)]
pub struct Access(Option<Arc<Granted>>);

impl Access {
    pub fn granted(granted: Arc<Granted>) -> Access {
        Access(Some(granted))
    }

    /// No permissions at all.
    pub fn none() -> Access {
        Access(Some(Arc::new(Granted { caller: "none".into(), rights: Vec::new() })))
    }

    pub fn may(&self, verb: Verb, name: &str) -> bool {
        self.has(|right| right.verb == verb && right.covers(name))
    }

    /// Whether a verb is allowed for every name.
    pub fn may_all(&self, verb: Verb) -> bool {
        self.has(|right| right.verb == verb && right.names == Names::All)
    }

    /// Whether a verb is allowed for any name.
    pub fn may_some(&self, verb: Verb) -> bool {
        self.has(|right| right.verb == verb)
    }

    /// Whether the caller may learn that a model or decision exists.
    pub fn sees(&self, name: &str) -> bool {
        self.has(|right| right.verb.takes_names() && right.covers(name))
    }

    /// Whether the caller has any right.
    pub fn any(&self) -> bool {
        self.has(|_| true)
    }

    /// Returns a fault without the right. The caller must be able to see `name`.
    pub fn require(&self, verb: Verb, name: &str) -> Result<(), Fault> {
        if self.may(verb, name) {
            return Ok(());
        }
        Err(self.refusal(&format!("'{}' '{name}'", verb.label()), &format!("{}:{name}", verb.label())))
    }

    /// Requires a right on the whole server.
    pub fn require_all(&self, verb: Verb) -> Result<(), Fault> {
        if self.may_all(verb) {
            return Ok(());
        }
        Err(self.refusal(&format!("'{}'", verb.label()), verb.label()))
    }

    /// Requires any right: for pages that every known caller may read.
    pub fn require_any(&self) -> Result<(), Fault> {
        if self.any() {
            return Ok(());
        }
        Err(self.refusal("do anything here", "decide:NAME"))
    }

    fn has(&self, sought: impl Fn(&Right) -> bool) -> bool {
        self.0.as_ref().is_none_or(|granted| granted.rights.iter().any(sought))
    }

    fn refusal(&self, what: &str, right: &str) -> Fault {
        let caller = self.0.as_ref().map_or("none", |granted| &*granted.caller);
        let text =
            format!("caller '{caller}' may not {what}; add \"{right}\" to its \"may\" in the callers file");
        Fault::new(FaultKind::Forbidden, Stage::Route, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(rights: &[&str]) -> Access {
        let rights = rights.iter().map(|right| right.parse().unwrap()).collect();
        Access::granted(Arc::new(Granted { caller: "a".into(), rights }))
    }

    #[test]
    fn a_right_covers_its_own_verb_and_names_alone() {
        let some = access(&["decide:fraud", "infer:price*", "metrics"]);
        assert!(some.may(Verb::Decide, "fraud") && !some.may(Verb::Decide, "fraud2"));
        assert!(!some.may(Verb::Infer, "fraud"), "another verb");
        assert!(some.may(Verb::Infer, "price") && some.may(Verb::Infer, "price-2"));
        assert!(!some.may(Verb::Infer, "pric") && !some.may(Verb::Infer, "Price"));
        assert!(some.may_all(Verb::Metrics) && !some.may_all(Verb::Infer) && some.may_some(Verb::Infer));
        assert!(some.sees("fraud") && some.sees("price-2") && !some.sees("other"));
        let refused = some.require(Verb::Infer, "fraud").unwrap_err();
        assert_eq!(refused.kind, FaultKind::Forbidden);
        assert!(refused.text.contains("caller 'a'") && refused.text.contains("\"infer:fraud\""));
    }

    #[test]
    fn a_verb_without_names_is_for_all_and_no_rights_are_for_nothing() {
        let all = access(&["infer", "control:*"]);
        assert!(all.may(Verb::Infer, "x") && all.may_all(Verb::Control) && all.sees("x"));
        for none in [access(&[]), Access::none()] {
            assert!(!none.any() && !none.sees("x") && none.require_any().is_err());
            assert!(Verb::ALL.into_iter().all(|verb| !none.may_all(verb) && !none.may(verb, "x")));
        }
        assert!(!access(&["metrics"]).sees("x"), "the page of metrics opens no model");
        assert!(Verb::ALL.into_iter().all(|verb| Access::default().may_all(verb)), "no callers are known");
    }

    #[test]
    fn what_is_no_right_is_refused() {
        for text in
            ["", "Infer", "infer:", "infer:a b", "infer:*a", "infer:a**", "metrics:x", "erase:*", "run", ":a"]
        {
            assert_eq!(text.parse::<Right>(), Err(InvalidRight), "{text}");
        }
    }
}
