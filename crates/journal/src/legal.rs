//! Erasures and holds of an open journal, which read the whole log first.
//!
//! One at a time. They wait for the disk, so a lane must not call them. Knows nothing of permissions, nor of
//! other stored data of a subject: the caller reports how many rows that was.

use crate::annotations::{Annotation, AnnotationError, Erasure, HoldScope};
use crate::error::JournalError;
use crate::holds::{Hold, SubjectFacts};
use crate::journal::Journal;
use crate::log::{Log, LogError};
use flyball_core::DecisionId;
use ring::rand::{SecureRandom, SystemRandom};

/// Why an erasure or a hold was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum LegalError {
    /// The subject is personal data, so the message does not repeat it.
    #[error("the journal has no record of this subject; give the value of the decision's key field (a record's id only where the \
        decision has no key field){}",
        if *.erased > 0 { format!(" ({erased} of its records were erased before)") } else { String::new() })]
    NoSubject { erased: u64 },
    #[error("a record of this subject is under the legal hold '{}' of {}; release it first", .0.name, .0.by)]
    Held(Box<Hold>),
    #[error("unknown decision '{name}': not served or recorded here; known: {}", listed(others))]
    NoDecision { name: String, others: Vec<String> },
    #[error("hold '{0}' is already in force; release it first, or choose another name")]
    InForce(String),
    #[error("no hold '{name}' is in force; in force: {}", listed(others))]
    NoHold { name: String, others: Vec<String> },
    #[error("cannot remove this subject's features: {0}; the journal was not changed, try again")]
    Elsewhere(String),
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The result of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erased {
    /// The number of its own record.
    pub seq: u64,
    /// Decisions and failures whose personal data can no longer be decrypted.
    pub records: u64,
    /// Rows removed outside the journal.
    pub rows: u64,
}

impl Journal {
    /// Deletes a subject's key and records it. `elsewhere` removes the subject's other data and returns the
    /// rows.
    pub fn erase(
        &self,
        erasure: &Erasure,
        unix_ns: i64,
        elsewhere: impl FnOnce() -> Result<u64, String>,
    ) -> Result<Erased, LegalError> {
        let _alone = self.alone();
        let record = erasure.record(unix_ns, new_id(unix_ns)?)?;
        let SubjectFacts { records, erased, held } = self.find_subject(&erasure.subject)?;
        if let Some(hold) = held.into_iter().next() {
            return Err(LegalError::Held(Box::new(hold)));
        }
        let rows = elsewhere().map_err(LegalError::Elsewhere)?;
        if records == 0
            && rows == 0
            && !self.keys().has(erasure.subject.as_bytes()).map_err(JournalError::from)?
        {
            return Err(LegalError::NoSubject { erased });
        }
        let seq = self.append(record)?;
        Ok(Erased { seq, records, rows })
    }

    /// The log's current facts about a subject.
    fn find_subject(&self, subject: &str) -> Result<SubjectFacts, LegalError> {
        // Decisions that do not wait for the disk may be answered before their records are in the file.
        self.flush()?;
        let token = self.keys().token(subject.as_bytes(), DecisionId(0));
        Ok(Log::open(self.folder())?.subject(&token)?)
    }

    pub fn holds(&self) -> Result<Vec<Hold>, LegalError> {
        Ok(Log::open(self.folder())?.holds()?)
    }

    /// Places a hold. Rejects a decision that is neither `served` nor recorded: the hold would protect
    /// nothing.
    pub fn hold(
        &self,
        held: HoldScope,
        unix_ns: i64,
        served: impl FnOnce(&str) -> bool,
    ) -> Result<u64, LegalError> {
        let _alone = self.alone();
        if self.holds()?.iter().any(|hold| hold.name == held.name) {
            return Err(LegalError::InForce(held.name));
        }
        if let Some(name) = held.decision.as_deref().filter(|name| !served(name)) {
            self.flush()?;
            let decisions = Log::open(self.folder())?.decisions(name)?;
            if !decisions.contains(name) {
                let others = decisions.into_iter().collect();
                return Err(LegalError::NoDecision { name: name.to_owned(), others });
            }
        }
        Ok(self.append(Annotation::Hold(held).record(unix_ns)?)?)
    }

    /// Releases a hold, ignoring the limits of `held`.
    pub fn release(&self, held: HoldScope, unix_ns: i64) -> Result<u64, LegalError> {
        let _alone = self.alone();
        let holds = self.holds()?;
        if !holds.iter().any(|hold| hold.name == held.name) {
            let others = holds.into_iter().map(|hold| hold.name).collect();
            return Err(LegalError::NoHold { name: held.name, others });
        }
        Ok(self.append(Annotation::Release(held).record(unix_ns)?)?)
    }
}

fn new_id(unix_ns: i64) -> Result<DecisionId, JournalError> {
    let mut random = [0; 16];
    SystemRandom::new().fill(&mut random).map_err(|_| crate::KeyError::NoRandom)?;
    let unix_ms = u64::try_from(unix_ns / 1_000_000).unwrap_or(0);
    Ok(DecisionId::new(unix_ms, u128::from_be_bytes(random)))
}
