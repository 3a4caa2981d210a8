//! The outcomes from mild to severe, and which are adverse.

use crate::faults::Faults;
use crate::nearest::did_you_mean;
use std::sync::Arc;

const OUTCOMES_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Outcomes {
    names: Vec<Arc<str>>,
    adverse: Vec<bool>,
}

impl Outcomes {
    pub(super) fn compile(names: &[String], adverse: &[String], path: &str, faults: &mut Faults) -> Outcomes {
        let own = format!("{path}.outcomes");
        if names.is_empty() || names.len() > OUTCOMES_MAX {
            faults.add(&own, names.len(), format!("1 to {OUTCOMES_MAX} outcomes, from mild to severe"));
        }
        for (place, name) in names.iter().enumerate() {
            if name.is_empty() || names[..place].contains(name) {
                faults.add(format!("{own}[{place}]"), name.as_str(), "each outcome needs a unique name");
            }
        }
        let names = names.iter().map(|name| name.as_str().into()).collect::<Vec<_>>();
        let mut outcomes = Outcomes { adverse: vec![false; names.len()], names };
        for (place, name) in adverse.iter().enumerate() {
            if let Some(outcome) = outcomes.find(name, &format!("{path}.adverse[{place}]"), faults) {
                outcomes.adverse[outcome] = true;
            }
        }
        outcomes
    }

    /// Its index, or a fault at `path`.
    pub(super) fn find(&self, name: &str, path: &str, faults: &mut Faults) -> Option<usize> {
        let found = self.names.iter().position(|known| **known == *name);
        if found.is_none() {
            let near = did_you_mean(name, self.names.iter().map(|known| &**known));
            let near =
                if near.is_empty() { format!("; outcomes are {}", self.names.join(", ")) } else { near };
            faults.tell(path, format!("'{name}' is not an outcome{near}"));
        }
        found
    }

    pub(super) fn name(&self, outcome: usize) -> &Arc<str> {
        &self.names[outcome]
    }

    pub(super) fn is_adverse(&self, outcome: usize) -> bool {
        self.adverse[outcome]
    }

    /// The default: the second most severe outcome, or the only one.
    pub(super) fn undecided(&self) -> usize {
        self.names.len().saturating_sub(2)
    }

    /// `pass, review, reject (adverse)`.
    pub(super) fn line(&self) -> String {
        let outcomes = self.names.iter().zip(&self.adverse);
        let named =
            outcomes.map(|(name, adverse)| format!("{name}{}", if *adverse { " (adverse)" } else { "" }));
        named.collect::<Vec<_>>().join(", ")
    }
}
