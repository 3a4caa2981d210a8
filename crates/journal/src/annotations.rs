//! Annotations of decisions after the fact: outcomes, overrides, holds, erasures.
//!
//! One form for the server and the command line. Does not check that the decision exists: an outcome may
//! reach another node than the decision did.

use crate::record_codec::{Out, Pairs, infallible};
use flyball_core::{DecisionId, JournalRecord, RecordKind};
use minicbor::Encoder;
use serde::Deserialize;
use serde_json::Value;

/// Maximum bytes of a text in an annotation.
pub const ANNOTATION_BYTES_MAX: usize = 4096;
/// Maximum pairs of a truth that is a map.
const TRUTH_PAIRS_MAX: usize = 64;

/// An annotation as received in JSON. Times are nanoseconds since 1970.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Annotation {
    Outcome {
        id: String,
        decision: String,
        truth: Value,
        when: Option<i64>,
        source: Option<String>,
        caller: Option<String>,
    },
    Override {
        id: String,
        decision: String,
        outcome: String,
        by: String,
        why: String,
        caller: Option<String>,
    },
    Hold(HoldScope),
    Release(HoldScope),
}

/// The records of a hold: of one decision or all, optionally from or to a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldScope {
    pub name: String,
    pub by: String,
    pub why: String,
    pub decision: Option<String>,
    pub from: Option<i64>,
    pub to: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    #[error("'{0}' is not a decision id")]
    Id(String),
    #[error("{0} is empty")]
    Empty(&'static str),
    #[error("{0} is longer than {ANNOTATION_BYTES_MAX} bytes")]
    Long(&'static str),
    #[error(
        "truth must be a text, a number, a boolean, null, or an object with at most {TRUTH_PAIRS_MAX} of these"
    )]
    Truth,
}

impl Annotation {
    /// The record of the annotation; the caller of the journal waits for the disk.
    pub fn record(&self, unix_ns: i64) -> Result<JournalRecord, AnnotationError> {
        let mut record = JournalRecord { sync: true, ..JournalRecord::default() };
        let mut pairs = Pairs::new(&mut record.pairs);
        number(&mut pairs, "at", Some(unix_ns));
        match self {
            Annotation::Outcome { id, decision, truth, when, source, caller } => {
                (record.kind, record.id) = (RecordKind::Outcome, parsed(id)?);
                text(&mut pairs, "decision", Some(filled("decision", decision)?))?;
                number(&mut pairs, "when", *when);
                truth_into(infallible(pairs.key("truth")), truth)?;
                text(&mut pairs, "source", source.as_deref())?;
                text(&mut pairs, "caller", caller.as_deref())?;
            }
            Annotation::Override { id, decision, outcome, by, why, caller } => {
                (record.kind, record.id) = (RecordKind::Override, parsed(id)?);
                text(&mut pairs, "decision", Some(filled("decision", decision)?))?;
                text(&mut pairs, "outcome", Some(filled("outcome", outcome)?))?;
                text(&mut pairs, "by", Some(filled("by", by)?))?;
                text(&mut pairs, "why", Some(filled("why", why)?))?;
                text(&mut pairs, "caller", caller.as_deref())?;
            }
            Annotation::Hold(held) | Annotation::Release(held) => {
                let release = matches!(self, Annotation::Release(_));
                record.kind = if release { RecordKind::Release } else { RecordKind::Hold };
                held.write_pairs(&mut pairs)?;
            }
        }
        record.pairs_count = pairs.count;
        Ok(record)
    }
}

/// An order to delete a subject's key. Separate from annotations: the subject must exist.
#[derive(Clone, Debug)]
pub struct Erasure {
    pub subject: String,
    pub by: String,
    pub why: String,
    pub caller: Option<String>,
}

impl Erasure {
    /// The record of the erasure, under its own id. The reason is personal and is sealed under that id's key.
    pub(crate) fn record(&self, unix_ns: i64, id: DecisionId) -> Result<JournalRecord, AnnotationError> {
        let mut record =
            JournalRecord { kind: RecordKind::Erased, id, sync: true, ..JournalRecord::default() };
        let mut pairs = Pairs::new(&mut record.pairs);
        number(&mut pairs, "at", Some(unix_ns));
        text(&mut pairs, "by", Some(filled("by", &self.by)?))?;
        text(&mut pairs, "caller", self.caller.as_deref())?;
        record.pairs_count = pairs.count;
        infallible(Encoder::new(&mut record.personal).map(1));
        text(&mut Pairs::new(&mut record.personal), "why", Some(filled("why", &self.why)?))?;
        record.subject = filled("subject", &self.subject)?.as_bytes().to_vec();
        Ok(record)
    }
}

impl HoldScope {
    fn write_pairs(&self, pairs: &mut Pairs<'_>) -> Result<(), AnnotationError> {
        text(pairs, "name", Some(filled("name", &self.name)?))?;
        text(pairs, "by", Some(filled("by", &self.by)?))?;
        text(pairs, "why", Some(filled("why", &self.why)?))?;
        text(pairs, "decision", self.decision.as_deref())?;
        number(pairs, "from", self.from);
        number(pairs, "to", self.to);
        Ok(())
    }
}

fn parsed(id: &str) -> Result<DecisionId, AnnotationError> {
    id.parse().map_err(|_| AnnotationError::Id(id.chars().take(64).collect()))
}

fn filled<'a>(name: &'static str, value: &'a str) -> Result<&'a str, AnnotationError> {
    if value.trim().is_empty() { Err(AnnotationError::Empty(name)) } else { Ok(value) }
}

fn text(pairs: &mut Pairs<'_>, name: &'static str, value: Option<&str>) -> Result<(), AnnotationError> {
    if value.is_some_and(|value| value.len() > ANNOTATION_BYTES_MAX) {
        return Err(AnnotationError::Long(name));
    }
    infallible(pairs.text(name, value));
    Ok(())
}

fn number(pairs: &mut Pairs<'_>, name: &str, value: Option<i64>) {
    infallible(infallible(pairs.key(name)).encode(value));
}

fn truth_into(to: &mut Out<'_>, truth: &Value) -> Result<(), AnnotationError> {
    let Value::Object(parts) = truth else { return scalar(to, truth) };
    let fits = |name: &String| name.len() <= ANNOTATION_BYTES_MAX;
    if parts.len() > TRUTH_PAIRS_MAX || !parts.keys().all(fits) {
        return Err(AnnotationError::Truth);
    }
    infallible(to.map(parts.len() as u64));
    parts.iter().try_for_each(|(name, value)| {
        infallible(to.str(name));
        scalar(to, value)
    })
}

fn scalar(to: &mut Out<'_>, value: &Value) -> Result<(), AnnotationError> {
    infallible(match value {
        Value::Null => to.null(),
        Value::Bool(value) => to.bool(*value),
        Value::Number(value) => match (value.as_i64(), value.as_f64()) {
            (Some(value), _) => to.i64(value),
            (None, Some(value)) => to.f64(value),
            (None, None) => return Err(AnnotationError::Truth),
        },
        Value::String(value) if value.len() <= ANNOTATION_BYTES_MAX => to.str(value),
        Value::String(_) => return Err(AnnotationError::Long("truth")),
        Value::Array(_) | Value::Object(_) => return Err(AnnotationError::Truth),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    const ID: &str = "0192f6c1-2345-7fff-bfff-ffffffffffff";

    fn record(told: Value) -> Result<JournalRecord, AnnotationError> {
        serde_json::from_value::<Annotation>(told).unwrap().record(7)
    }

    /// The keys of the pairs, each with its value type.
    fn keys(record: &JournalRecord) -> Vec<String> {
        let mut decoder = minicbor::Decoder::new(&record.pairs);
        let keys = (0..record.pairs_count).map(|_| {
            let key = decoder.str().unwrap().to_owned();
            decoder.skip().unwrap();
            key
        });
        let keys = keys.collect();
        assert_eq!(decoder.position(), record.pairs.len(), "as many pairs as are counted");
        keys
    }

    #[test]
    fn an_outcome_has_its_pairs_in_the_order_of_the_format() {
        let outcome = record(
            json!({"kind": "outcome", "id": ID, "decision": "pay", "truth": {"fraud": true, "loss": 12.5}}),
        )
        .unwrap();
        assert_eq!(
            (outcome.kind, outcome.id.to_string().as_str(), outcome.sync),
            (RecordKind::Outcome, ID, true)
        );
        assert_eq!(keys(&outcome), ["at", "decision", "when", "truth", "source", "caller"]);
    }

    #[test]
    fn an_override_says_who_and_why() {
        let told = json!({"kind": "override", "id": ID, "decision": "pay", "outcome": "pass", "by": "ana", "why": "known", "caller": "desk"});
        assert_eq!(keys(&record(told).unwrap()), ["at", "decision", "outcome", "by", "why", "caller"]);
        let silent = json!({"kind": "override", "id": ID, "decision": "pay", "outcome": "pass", "by": " ", "why": "known"});
        assert_eq!(record(silent), Err(AnnotationError::Empty("by")));
    }

    #[test]
    fn an_erasure_names_its_subject_beside_the_pairs_so_that_only_its_token_is_recorded() {
        let [subject, by, why] = ["4242", "ana", "asked"].map(str::to_owned);
        let erasure = Erasure { subject, by, why, caller: None };
        let erased = erasure.record(7, DecisionId(9)).unwrap();
        assert_eq!(
            (keys(&erased), erased.subject.as_slice()),
            (vec!["at".into(), "by".into(), "caller".into()], &b"4242"[..])
        );
        let reason = |bytes: &[u8]| bytes.windows(5).any(|part| part == b"asked");
        assert!(reason(&erased.personal) && !reason(&erased.pairs), "the reason is sealed");
        let silent = Erasure { why: " ".to_owned(), ..erasure };
        assert_eq!(silent.record(7, DecisionId(9)), Err(AnnotationError::Empty("why")));
    }

    #[test]
    fn a_hold_and_its_release_have_the_same_pairs() {
        let pairs = ["at", "name", "by", "why", "decision", "from", "to"];
        for (kind, expected) in [("hold", RecordKind::Hold), ("release", RecordKind::Release)] {
            let held =
                record(json!({"kind": kind, "name": "case 7", "by": "ana", "why": "court", "from": 3}))
                    .unwrap();
            assert_eq!((keys(&held), held.kind), (pairs.map(String::from).to_vec(), expected));
        }
    }

    #[test]
    fn what_is_too_long_or_has_no_place_in_a_record_is_refused() {
        let outcome =
            |truth: Value| record(json!({"kind": "outcome", "id": ID, "decision": "pay", "truth": truth}));
        assert_eq!(outcome(json!([1])), Err(AnnotationError::Truth));
        assert_eq!(outcome(json!({"a": {"b": 1}})), Err(AnnotationError::Truth));
        assert_eq!(outcome(json!("x".repeat(ANNOTATION_BYTES_MAX + 1))), Err(AnnotationError::Long("truth")));
        let many: Map<String, Value> =
            (0..=TRUTH_PAIRS_MAX).map(|name| (name.to_string(), json!(1))).collect();
        assert_eq!(outcome(many.into()), Err(AnnotationError::Truth));
        assert_eq!(
            record(json!({"kind": "outcome", "id": "7", "decision": "pay", "truth": 1})),
            Err(AnnotationError::Id("7".into()))
        );
        let long = json!({"kind": "outcome", "id": ID, "decision": "pay", "truth": 1, "source": "x".repeat(ANNOTATION_BYTES_MAX + 1)});
        assert_eq!(record(long), Err(AnnotationError::Long("source")));
    }
}
