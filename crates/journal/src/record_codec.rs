//! Encodes records as CBOR into their own reused memory: the keys of each kind, their order and their values.
//!
//! `docs/reference/decision-records.md` lists the keys. Knows neither walks nor programs, nor how a record
//! reaches the disk: callers pass the facts of a row.

mod preamble;
mod run_notes;

use flyball_core::{
    DecidedBy, DecisionId, Digest, Fault, JournalRecord, LaneRecorder, Nanos, Reason, RecordKind, Remedied,
    Stage, nanos,
};
use minicbor::Encoder;
use minicbor::data::Tag;
use preamble::{Fixed, Recorded};
use std::convert::Infallible;
use std::time::Duration;

pub use preamble::{DecisionFacts, Preamble, RecordedField};
pub use run_notes::{ModelRun, RunNotes};

pub(crate) type Out<'v> = Encoder<&'v mut Vec<u8>>;
pub(crate) type Encoded<T = ()> = Result<T, minicbor::encode::Error<Infallible>>;

/// Seconds and parts of them since 1970 (RFC 9581).
const EXTENDED_TIME: Tag = Tag::new(1001);
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The facts that all rows of a request share.
pub struct RequestFacts<'a> {
    pub at_ns: i64,
    pub mono: Nanos,
    pub protocol: &'static str,
    pub caller: Option<&'a str>,
    /// Its idempotency key.
    pub key: Option<&'a str>,
    pub trace: Option<&'a str>,
    pub single: bool,
    /// Whether the caller asked for reasons.
    pub explain: bool,
    pub timings: [Option<Duration>; Stage::COUNT],
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RecordValue<'a> {
    Missing,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
    /// Nanoseconds since 1970.
    Time(i64),
}

/// A feature's value and its origin.
pub struct FeatureValue<'a> {
    pub value: RecordValue<'a>,
    pub origin: &'static str,
    pub age_ms: Option<u32>,
}

/// The values of one row. Indices are those of the decision's program.
pub trait RowValues {
    fn field(&self, field: usize) -> RecordValue<'_>;
    fn feature(&self, feature: usize) -> FeatureValue<'_>;
    fn score(&self, model: usize) -> f64;
    /// The caller's own id of the row.
    fn id(&self) -> Option<&str>;
    /// Writes the row's subject as text; nothing without a subject.
    fn subject(&self, out: &mut Vec<u8>);
}

/// The result of one row.
pub struct RowFacts<'a, V> {
    pub id: DecisionId,
    pub values: V,
    /// Whether the record has input, features and outputs; sampling leaves them out.
    pub whole: bool,
    pub outcome: RowOutcome<'a>,
}

pub enum RowOutcome<'a> {
    Decided(DecidedFacts<'a>),
    Failed(&'a Fault),
}

pub struct DecidedFacts<'a> {
    /// Its index and name; none if no model decided.
    pub variant: Option<(usize, &'a str)>,
    /// How the row was decided.
    pub route: &'static str,
    pub runs: &'a RunNotes,
    /// The row's index in the request.
    pub row: usize,
    pub score: Option<f64>,
    pub outcome: &'a str,
    pub band: Option<&'a str>,
    pub rules: &'a [u16],
    pub reasons: &'a [Reason],
    pub remedy: Option<Remedied>,
}

/// Writes the record of a row that was decided, or was admitted and failed.
pub fn row<V: RowValues>(
    preamble: &Preamble,
    request: &RequestFacts<'_>,
    row: &RowFacts<'_, V>,
    entry: &mut JournalRecord,
) {
    infallible(encode_row(preamble, request, row, entry));
}

fn encode_row<V: RowValues>(
    preamble: &Preamble,
    request: &RequestFacts<'_>,
    row: &RowFacts<'_, V>,
    entry: &mut JournalRecord,
) -> Encoded {
    entry.id = row.id;
    let mut pairs = Pairs::new(&mut entry.pairs);
    match &row.outcome {
        RowOutcome::Decided(facts) => {
            entry.kind = RecordKind::Decision;
            head(preamble, facts.variant, request, &mut pairs)?;
            decided(preamble, row, facts, request, &mut pairs)?;
        }
        RowOutcome::Failed(fault) => {
            entry.kind = RecordKind::Failed;
            head(preamble, None, request, &mut pairs)?;
            failed(fault, &mut pairs)?;
            plain_features(preamble, row, &mut pairs)?;
        }
    }
    if row.whole {
        pairs.fixed(&preamble.masked);
    } else {
        pairs.key("sampled")?.bool(false)?;
    }
    entry.pairs_count = pairs.count;
    if row.whole {
        row.values.subject(&mut entry.subject);
        input(preamble, &row.values, entry)?;
    }
    Ok(())
}

fn head(
    preamble: &Preamble,
    variant: Option<(usize, &str)>,
    request: &RequestFacts<'_>,
    pairs: &mut Pairs<'_>,
) -> Encoded {
    pairs.key("at")?.i64(request.at_ns)?;
    pairs.key("mono")?.u64(request.mono.0)?;
    pairs.fixed(&preamble.head);
    match variant {
        Some((variant, _)) => pairs.encoded("models", &preamble.models[variant])?,
        None => pairs.key("models")?.array(0)?.ok()?,
    }
    pairs.text("protocol", Some(request.protocol))?;
    pairs.text("caller", request.caller)?;
    pairs.text("key", request.key)?;
    pairs.text("trace", request.trace)?;
    pairs.key("single")?.bool(request.single)?.ok()
}

fn failed(fault: &Fault, pairs: &mut Pairs<'_>) -> Encoded {
    let out = pairs.key("fault")?.array(3)?;
    out.str(fault.kind.label())?.str(fault.stage.label())?.str(&fault.text)?.ok()
}

fn decided<V: RowValues>(
    preamble: &Preamble,
    row: &RowFacts<'_, V>,
    facts: &DecidedFacts<'_>,
    request: &RequestFacts<'_>,
    pairs: &mut Pairs<'_>,
) -> Encoded {
    pairs.text("variant", facts.variant.map(|(_, name)| name))?;
    pairs.text("route", Some(facts.route))?;
    let (runs, names) = (facts.runs.of(facts.row), &preamble.names);
    let models = runs.clone().count() as u64;
    let out = pairs.key("batch")?.array(models)?;
    for (model, run) in runs.clone() {
        out.array(3)?.writer_mut().extend_from_slice(&names[model]);
        out.u32(run.rows)?.u32(run.position)?;
    }
    plain_features(preamble, row, pairs)?;
    let out = pairs.key("scores")?.map(models)?;
    for (model, _) in runs.clone() {
        out.writer_mut().extend_from_slice(&names[model]);
        out.f64(row.values.score(model))?;
    }
    if row.whole {
        let out = pairs.key("outputs")?.map(models)?;
        for (model, run) in runs {
            out.writer_mut().extend_from_slice(&names[model]);
            out.writer_mut().extend_from_slice(facts.runs.outputs(run));
        }
    }
    pairs.key("score")?.encode(facts.score)?;
    verdict_and_reasons(facts, pairs)?;
    pairs.key("explain")?.bool(request.explain)?;
    remedy(facts.remedy, pairs)?;
    let out = pairs.key("timings")?.array(Stage::COUNT as u64)?;
    for took in request.timings {
        out.encode(took.map(nanos))?;
    }
    Ok(())
}

fn verdict_and_reasons(facts: &DecidedFacts<'_>, pairs: &mut Pairs<'_>) -> Encoded {
    pairs.text("outcome", Some(facts.outcome))?;
    pairs.text("band", facts.band)?;
    let out = pairs.key("rules")?.array(facts.rules.len() as u64)?;
    for &rule in facts.rules {
        out.str(decimal(rule, &mut [0; DECIMAL_DIGITS]))?;
    }
    let out = pairs.key("reasons")?.array(facts.reasons.len() as u64)?;
    for reason in facts.reasons {
        out.array(3)?.str(&reason.code)?;
        match &reason.contribution {
            Some((field, contribution)) => out.str(field)?.f64(*contribution)?,
            None => out.null()?.null()?,
        };
    }
    Ok(())
}

const DECIMAL_DIGITS: usize = 5;

/// A rule's number as text, without an allocation.
fn decimal(mut number: u16, digits: &mut [u8; DECIMAL_DIGITS]) -> &str {
    let mut first = DECIMAL_DIGITS;
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return str::from_utf8(&digits[first..]).expect("decimal digits are UTF-8");
        }
    }
}

fn remedy(remedied: Option<Remedied>, pairs: &mut Pairs<'_>) -> Encoded {
    let out = pairs.key("remedy")?;
    match remedied {
        Some(Remedied { cause, stage, remedy }) => {
            out.array(3)?.str(cause.label())?.str(stage.label())?.str(remedy.label())?.ok()
        }
        None => out.null()?.ok(),
    }
}

/// The features that are not personal.
fn plain_features<V: RowValues>(
    preamble: &Preamble,
    row: &RowFacts<'_, V>,
    pairs: &mut Pairs<'_>,
) -> Encoded {
    if !row.whole {
        return Ok(());
    }
    features(&row.values, &preamble.features.plain, pairs.key("features")?)
}

/// Writes these features, each with its origin.
fn features(values: &impl RowValues, which: &[Recorded], out: &mut Out<'_>) -> Encoded {
    out.map(which.len() as u64)?;
    for Recorded { index, before } in which {
        let feature = values.feature(*index);
        out.writer_mut().extend_from_slice(before);
        value(feature.value, out)?;
        out.str(feature.origin)?;
        out.encode(feature.age_ms)?;
    }
    Ok(())
}

/// How many of these fields were sent.
fn sent(values: &impl RowValues, which: &[Recorded]) -> usize {
    which.iter().filter(|field| values.field(field.index) != RecordValue::Missing).count()
}

/// Writes the fields that were sent, `count` of them.
fn fields(values: &impl RowValues, which: &[Recorded], count: usize, out: &mut Out<'_>) -> Encoded {
    out.map(count as u64)?;
    for Recorded { index, before } in which {
        let sent = values.field(*index);
        if sent != RecordValue::Missing {
            out.writer_mut().extend_from_slice(before);
            value(sent, out)?;
        }
    }
    Ok(())
}

/// Writes the input, and the personal parts of input and features; nothing if there are none.
fn input(preamble: &Preamble, values: &impl RowValues, entry: &mut JournalRecord) -> Encoded {
    let plain = &*preamble.fields.plain;
    let plain_sent = sent(values, plain);
    if plain_sent > 0 {
        fields(values, plain, plain_sent, &mut Encoder::new(&mut entry.input))?;
    }
    let personal = &*preamble.fields.personal;
    let (personal_sent, found) = (sent(values, personal), &*preamble.features.personal);
    // The caller's own id of a row is personal. Where nothing else is, and there is no subject, it would need a key for each
    // record: it is left out, since the caller has the decision's id.
    let sealed = personal_sent > 0 || !found.is_empty() || !entry.subject.is_empty();
    let id = values.id().filter(|_| sealed);
    let parts = u64::from(personal_sent > 0) + u64::from(!found.is_empty()) + u64::from(id.is_some());
    if parts > 0 {
        let out = &mut Encoder::new(&mut entry.personal);
        out.map(parts)?;
        if personal_sent > 0 {
            fields(values, personal, personal_sent, out.str("input")?)?;
        }
        if !found.is_empty() {
            features(values, found, out.str("features")?)?;
        }
        if let Some(id) = id {
            out.str("row")?.str(id)?;
        }
    }
    Ok(())
}

fn value(value: RecordValue<'_>, out: &mut Out<'_>) -> Encoded {
    match value {
        RecordValue::Missing => out.null()?,
        RecordValue::Bool(value) => out.bool(value)?,
        RecordValue::Int(value) => out.i64(value)?,
        RecordValue::Float(value) => out.f64(value)?,
        RecordValue::Text(text) => out.str(text)?,
        RecordValue::Time(nanos) => {
            let (seconds, rest) = (nanos.div_euclid(NANOS_PER_SECOND), nanos.rem_euclid(NANOS_PER_SECOND));
            out.tag(EXTENDED_TIME)?.map(2)?.i8(1)?.i64(seconds)?.i8(-9)?.i64(rest)?
        }
    }
    .ok()
}

/// The record of a decision whose client disconnected.
pub fn undelivered(recorder: &dyn LaneRecorder, id: DecisionId, at_ns: i64) -> Box<JournalRecord> {
    blank(recorder, RecordKind::Undelivered, id, |pairs| pairs.key("at")?.i64(at_ns)?.ok())
}

/// A shadow's decision for a row.
pub struct ShadowFacts<'a> {
    pub at_ns: i64,
    pub decision: &'a str,
    /// None is the policy.
    pub variant: Option<&'a str>,
    pub score: Option<f64>,
    pub outcome: &'a str,
    pub agrees: bool,
}

pub fn shadow(recorder: &dyn LaneRecorder, id: DecisionId, facts: &ShadowFacts<'_>) -> Box<JournalRecord> {
    blank(recorder, RecordKind::Shadow, id, |pairs| {
        pairs.key("at")?.i64(facts.at_ns)?;
        pairs.text("decision", Some(facts.decision))?;
        pairs.text("of", Some(if facts.variant.is_some() { "variant" } else { "policy" }))?;
        pairs.text("variant", facts.variant)?;
        pairs.key("score")?.encode(facts.score)?;
        pairs.text("outcome", Some(facts.outcome))?;
        pairs.key("agrees")?.bool(facts.agrees)?.ok()
    })
}

/// A call that sent tensors to a decision's model.
pub struct TensorFacts<'a> {
    pub at_ns: i64,
    pub decision: &'a str,
    pub model: Option<&'a DecidedBy>,
    pub protocol: &'static str,
    pub caller: Option<&'a str>,
    pub trace: Option<&'a str>,
    pub rows: usize,
    pub inputs: Digest,
}

pub fn tensors(recorder: &dyn LaneRecorder, id: DecisionId, facts: &TensorFacts<'_>) -> Box<JournalRecord> {
    let mut entry = blank(recorder, RecordKind::Tensors, id, |pairs| {
        pairs.key("at")?.i64(facts.at_ns)?;
        pairs.text("decision", Some(facts.decision))?;
        let out = pairs.key("models")?.array(facts.model.iter().len() as u64)?;
        if let Some(model) = facts.model {
            preamble::model(model, out)?;
        }
        pairs.text("protocol", Some(facts.protocol))?;
        pairs.text("caller", facts.caller)?;
        pairs.text("trace", facts.trace)?;
        pairs.key("rows")?.u64(facts.rows as u64)?.ok()
    });
    let mut personal = Encoder::new(&mut entry.personal);
    let written = personal.map(1).and_then(|out| out.str("input")?.map(1)?.str("tensors"));
    infallible(written.and_then(|out| out.bytes(facts.inputs.bytes())?.ok()));
    entry
}

fn blank(
    recorder: &dyn LaneRecorder,
    kind: RecordKind,
    id: DecisionId,
    write: impl FnOnce(&mut Pairs<'_>) -> Encoded,
) -> Box<JournalRecord> {
    let mut entry = recorder.blank();
    (entry.kind, entry.id) = (kind, id);
    entry.pairs_count = write_pairs(&mut entry.pairs, write);
    entry
}

/// Writes the pairs of a map and returns how many there are.
pub(crate) fn write_pairs(into: &mut Vec<u8>, write: impl FnOnce(&mut Pairs<'_>) -> Encoded) -> u32 {
    let mut pairs = Pairs::new(into);
    infallible(write(&mut pairs));
    pairs.count
}

/// Writing to memory cannot fail.
pub(crate) fn infallible<T>(encoded: Encoded<T>) -> T {
    encoded.expect("writing to memory does not fail")
}

/// Pairs of a map whose length is written elsewhere.
pub(crate) struct Pairs<'v> {
    out: Out<'v>,
    pub(crate) count: u32,
}

impl<'v> Pairs<'v> {
    pub(crate) fn new(into: &'v mut Vec<u8>) -> Pairs<'v> {
        Pairs { out: Encoder::new(into), count: 0 }
    }

    pub(crate) fn key(&mut self, key: &str) -> Encoded<&mut Out<'v>> {
        self.count += 1;
        self.out.str(key)
    }

    pub(crate) fn text(&mut self, key: &str, text: Option<&str>) -> Encoded {
        self.key(key)?.encode(text)?.ok()
    }

    /// A value that is CBOR already.
    fn encoded(&mut self, key: &str, value: &[u8]) -> Encoded {
        self.key(key)?.writer_mut().extend_from_slice(value);
        Ok(())
    }

    /// Pairs that are CBOR already.
    fn fixed(&mut self, Fixed { pairs, count }: &Fixed) {
        self.count += count;
        self.out.writer_mut().extend_from_slice(pairs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_rules_are_written_in_decimal() {
        for number in [0, 7, 10, 999, u16::MAX] {
            assert_eq!(decimal(number, &mut [0; DECIMAL_DIGITS]), number.to_string());
        }
    }
}
