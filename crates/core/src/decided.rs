//! A decision in neutral form, before a protocol encodes it.

use crate::{Digest, FaultKind, Stage};
use bytestring::ByteString;
use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// A UUID of version 7: its first 48 bits are the milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId(pub u128);

impl DecisionId {
    /// `random` supplies the bits that are not time, version or variant.
    pub const fn new(unix_ms: u64, random: u128) -> DecisionId {
        const VERSION: u128 = 7 << 76;
        const VARIANT: u128 = 2 << 62;
        const FREE: u128 = (0xfff << 64) | ((1 << 62) - 1);
        let time = (unix_ms as u128 & 0xffff_ffff_ffff) << 80;
        DecisionId(time | VERSION | VARIANT | (random & FREE))
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0;
        let part = |shift: u32, bits: u32| (id >> shift) & ((1 << bits) - 1);
        let (a, b, c, d, e) = (part(96, 32), part(80, 16), part(64, 16), part(48, 16), part(0, 48));
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }
}

impl fmt::Debug for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a decision id is a UUID: 32 hex digits with four dashes")]
pub struct InvalidDecisionId;

impl FromStr for DecisionId {
    type Err = InvalidDecisionId;

    /// Accepts only the canonical form, so that one id has one text.
    fn from_str(text: &str) -> Result<DecisionId, InvalidDecisionId> {
        let digits: String = text.split('-').collect();
        let id = u128::from_str_radix(&digits, 16).map(DecisionId).map_err(|_| InvalidDecisionId)?;
        if id.to_string().eq_ignore_ascii_case(text) { Ok(id) } else { Err(InvalidDecisionId) }
    }
}

/// A reason for a decision's outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    pub code: Arc<str>,
    pub text: Option<Arc<str>>,
    /// The field or feature and its contribution to the model's score. None for a rule's reason.
    pub contribution: Option<(Arc<str>, f64)>,
}

crate::labelled! {
    /// The fallback used after a failure; a bounded metric label.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Remedy {
        Retry => "retry",
        Rules => "rules",
        Previous => "previous",
        Outcome => "outcome",
        /// Rejected as overload. Counted, but never in a response, because there is none.
        Shed => "shed",
    }
}

/// The failure and the remedy applied to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedied {
    pub cause: FaultKind,
    pub stage: Stage,
    pub remedy: Remedy,
}

/// One field that does not match the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    pub field: ByteString,
    /// The value sent, as JSON truncated to a readable length; none if the field is missing.
    pub is: Option<String>,
    pub allowed: String,
}

/// The decision for one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    pub id: DecisionId,
    pub outcome: Arc<str>,
    pub band: Option<Arc<str>>,
    pub score: Option<f64>,
    /// Each model's own score, if there are several models.
    pub scores: SmallVec<[(Arc<str>, f64); 2]>,
    pub reasons: SmallVec<[Reason; 4]>,
    /// The variant that produced the score.
    pub variant: Option<Arc<str>>,
    pub remedy: Option<Remedied>,
}

/// The result of one row: a decision, field faults, or a row fault.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every row has a decision, and a box would cost an allocation for each"
)]
pub enum RowOutcome {
    Decided(Decided),
    Invalid(Vec<FieldFault>),
    Failed { kind: FaultKind, stage: Stage, text: String },
}

#[derive(Clone, Debug, PartialEq)]
pub struct DecidedRow {
    pub id: Option<ByteString>,
    pub outcome: RowOutcome,
}

/// A model version that took part in the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedBy {
    pub model: Arc<str>,
    pub version: Arc<str>,
    pub digest: Digest,
}

/// The response to one decision request.
#[derive(Clone, Debug, PartialEq)]
pub struct Decisions {
    pub decision: Arc<str>,
    /// The caller sent a single row, not a list.
    pub single: bool,
    pub rows: Vec<DecidedRow>,
    pub models: Arc<[DecidedBy]>,
    /// The digest of the whole decision; the next two cover parts of it.
    pub document: Digest,
    pub policy: Digest,
    pub schema: Digest,
    /// The response repeats an earlier decision with the same idempotency key.
    pub repeated: bool,
    /// The duration of each stage so far, if the caller requested timings.
    pub timings: Option<[Option<Duration>; Stage::COUNT]>,
}

/// The size of a JSON text; in the worst case every byte is escaped as `\u0000`.
fn text_size(text: &str) -> usize {
    text.len() * 6 + 2
}

/// Maximum bytes around the texts of one row, reason, score or field.
///
/// Covers keys, numbers, ids and digests.
const ITEM_BYTES: usize = 512;

impl Decisions {
    /// The maximum size of the response in bytes, in any protocol.
    pub fn size_max(&self) -> usize {
        let models = self.models.iter().map(|by| ITEM_BYTES + text_size(&by.model) + text_size(&by.version));
        let rows = self.rows.iter().map(DecidedRow::size_max);
        4 * ITEM_BYTES + text_size(&self.decision) + models.sum::<usize>() + rows.sum::<usize>()
    }
}

impl DecidedRow {
    fn size_max(&self) -> usize {
        let optional = |text: &Option<Arc<str>>| text.as_deref().map_or(0, text_size);
        let outcome = match &self.outcome {
            RowOutcome::Decided(decided) => {
                let scores = decided.scores.iter().map(|(name, _)| ITEM_BYTES + text_size(name));
                let reasons = decided.reasons.iter().map(|reason| {
                    let field = reason.contribution.as_ref().map_or(0, |(field, _)| text_size(field));
                    ITEM_BYTES + text_size(&reason.code) + optional(&reason.text) + field
                });
                text_size(&decided.outcome)
                    + optional(&decided.band)
                    + optional(&decided.variant)
                    + scores.sum::<usize>()
                    + reasons.sum::<usize>()
            }
            RowOutcome::Invalid(fields) => {
                let field = |fault: &FieldFault| {
                    let is = fault.is.as_deref().map_or(0, text_size);
                    ITEM_BYTES + text_size(&fault.field) + is + text_size(&fault.allowed)
                };
                fields.iter().map(field).sum()
            }
            RowOutcome::Failed { text, .. } => text_size(text),
        };
        2 * ITEM_BYTES + self.id.as_deref().map_or(0, text_size) + outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_each_remedy_is_its_place_in_all() {
        for (place, remedy) in Remedy::ALL.into_iter().enumerate() {
            assert_eq!(remedy.index(), place);
        }
    }

    #[test]
    fn an_id_is_a_uuid_of_version_seven_that_begins_with_its_time() {
        let id = DecisionId::new(0x0192_f6c1_2345, u128::MAX).to_string();
        assert_eq!(id, "0192f6c1-2345-7fff-bfff-ffffffffffff");
        assert_eq!(DecisionId::new(1, 0).to_string(), "00000000-0001-7000-8000-000000000000");
    }

    #[test]
    fn an_id_reads_back_and_has_one_way_of_writing_it() {
        let id = DecisionId::new(0x0192_f6c1_2345, 7);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
        for text in
            ["", "-", "0192f6c1", "0192f6c123457fffbfffffffffffffff", "+0192f6c-2345-7fff-bfff-ffffffffffff"]
        {
            assert_eq!(text.parse::<DecisionId>(), Err(InvalidDecisionId), "{text}");
        }
    }
}
