//! Legal holds, and the log's facts about one subject.
//!
//! Answers whether a subject may be erased and how many records that affects. A hold and its release are
//! records; the holds in force follow from them. Reads the log, so a lane must not call it.

use crate::format::Hash;
use crate::keys::{Stored, walk_subjects};
use crate::log::{Log, LogError, head_of_record};
use crate::record_facts::RecordFacts;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The number of each subject's last erasure record, by token. Earlier records cannot be decrypted.
pub type Erasures = BTreeMap<Hash, u64>;

/// A hold in force. No decision means all of them; no `from` or `to` leaves that side open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hold {
    pub name: String,
    pub by: String,
    pub why: String,
    pub decision: Option<String>,
    pub from: Option<i64>,
    pub to: Option<i64>,
    /// When it was ordered, in nanoseconds since 1970.
    pub at: i64,
    pub seq: u64,
}

impl Hold {
    fn of(record: RecordFacts) -> Hold {
        Hold {
            name: record.name.unwrap_or_default(),
            by: record.by.unwrap_or_default(),
            why: record.why.unwrap_or_default(),
            decision: record.decision,
            from: record.from,
            to: record.to,
            at: record.at.unwrap_or_default(),
            seq: record.seq,
        }
    }

    /// Whether it covers a record. Treats an unknown decision or time as covered.
    fn covers(&self, decision: Option<&str>, at: Option<i64>) -> bool {
        let in_time =
            at.is_none_or(|at| self.from.is_none_or(|from| at >= from) && self.to.is_none_or(|to| at < to));
        let other = |held: &str| decision.is_some_and(|decision| decision != held);
        in_time && !self.decision.as_deref().is_some_and(other)
    }
}

/// The log's facts about one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectFacts {
    /// Decisions and failures since its last erasure.
    pub records: u64,
    /// Records before the last erasure.
    pub erased: u64,
    /// Holds in force that cover one of `records`.
    pub held: Vec<Hold>,
}

impl Log {
    /// The holds in force, oldest first.
    pub fn holds(&mut self) -> Result<Vec<Hold>, LogError> {
        let mut holds = Vec::new();
        self.record_facts(&is_hold, &mut |record| follow(&mut holds, record))?;
        Ok(holds)
    }

    /// The last erasure of each erased subject. Needs no key.
    pub fn erasures(&mut self) -> Result<Erasures, LogError> {
        let mut any = false;
        let walked = walk_subjects(self.folder(), |stored, _, _| any |= stored == Stored::Erased);
        let mut erasures = BTreeMap::new();
        // A copy without keys cannot tell, so read all records.
        if any || walked.is_err() {
            self.record_facts(&|payload| is_kind(payload, &["erased"]), &mut |record| {
                if let ("erased", Some(subject)) = (record.kind.as_str(), record.subject) {
                    erasures.insert(subject, record.seq);
                }
            })?;
        }
        Ok(erasures)
    }

    /// The decisions that ever served here, and `name` if a record of it remains.
    pub(crate) fn decisions(&mut self, name: &str) -> Result<BTreeSet<String>, LogError> {
        let mut decisions = BTreeSet::new();
        let names = |payload: &[u8]| payload.windows(name.len()).any(|part| part == name.as_bytes());
        let wanted = |payload: &[u8]| is_kind(payload, &["served"]) || (!name.is_empty() && names(payload));
        self.record_facts(&wanted, &mut |record| {
            if matches!(record.kind.as_str(), "served" | "decision" | "failed" | "tensors") {
                decisions.extend(record.decision);
            }
        })?;
        Ok(decisions)
    }

    pub(crate) fn subject(&mut self, token: &Hash) -> Result<SubjectFacts, LogError> {
        let names = |payload: &[u8]| payload.windows(32).any(|part| part == token.0);
        let (mut holds, mut records, mut erased) = (Vec::new(), Vec::new(), 0);
        self.record_facts(&|payload| is_hold(payload) || names(payload), &mut |record| match record
            .kind
            .as_str()
        {
            "erased" if record.subject == Some(*token) => erased += records.drain(..).count() as u64,
            "decision" | "failed" if record.subject == Some(*token) => {
                records.push((record.decision, record.at));
            }
            _ => follow(&mut holds, record),
        })?;
        let covers = |hold: &Hold| records.iter().any(|(decision, at)| hold.covers(decision.as_deref(), *at));
        holds.retain(covers);
        Ok(SubjectFacts { records: records.len() as u64, erased, held: holds })
    }
}

fn is_hold(payload: &[u8]) -> bool {
    is_kind(payload, &["hold", "release"])
}

fn is_kind(payload: &[u8], kinds: &[&str]) -> bool {
    head_of_record(payload).is_some_and(|(kind, _)| kinds.contains(&kind))
}

/// Updates the holds in force with one record.
fn follow(holds: &mut Vec<Hold>, record: RecordFacts) {
    if record.holds() {
        holds.retain(|hold| Some(&hold.name) != record.name.as_ref());
        if record.kind == "hold" {
            holds.push(Hold::of(record));
        }
    }
}
