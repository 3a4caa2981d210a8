//! A row's record as CBOR, written into an entry's own memory. What each pair means stands in the journal's reference page;
//! how an entry comes to the disk is not known here.

use super::case::Case;
use super::preamble::{Fixed, Kept};
use super::work::{Line, State};
use crate::Decision;
use crate::walk::Walk;
use flyball_core::{
    DecisionId, Fault, JournalRecord, LaneRecorder, Nanos, RecordKind, Remedied, Remedy, Sink, Stage, nanos,
};
use flyball_decision::{Field, KeyBuffer, Program, Rows, Value, Verdict};
use minicbor::Encoder;
use minicbor::data::Tag;
use std::convert::Infallible;
use std::time::Duration;

pub(super) type Out<'v> = Encoder<&'v mut Vec<u8>>;
pub(super) type Written = Result<(), minicbor::encode::Error<Infallible>>;

/// Seconds and parts of them since 1970 (RFC 9581).
const EXTENDED_TIME: Tag = Tag::new(1001);
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Memory takes everything that is written to it.
pub(super) fn never<T>(written: Result<T, minicbor::encode::Error<Infallible>>) -> T {
    written.expect("writing to memory does not fail")
}

/// What all rows of a request have in common.
pub(super) struct Told<'w> {
    at_ns: i64,
    mono: Nanos,
    protocol: &'static str,
    caller: Option<&'w str>,
    trace: Option<&'w str>,
    timings: [Option<Duration>; Stage::COUNT],
}

impl<'w> Told<'w> {
    pub(super) fn of<S: Sink>(case: &Case<'_, S>, walk: &'w Walk<S>) -> Told<'w> {
        Told {
            at_ns: case.lane.plane.means.wall.now_ns(),
            mono: case.lane.now(),
            protocol: walk.protocol.label(),
            caller: walk.caller_name().map(|name| &**name),
            trace: walk.trace(),
            timings: walk.timings(),
        }
    }
}

/// Pairs of a map whose length is told elsewhere.
pub(super) struct Pairs<'v> {
    out: Out<'v>,
    pub(super) count: u32,
}

impl<'v> Pairs<'v> {
    pub(super) fn new(into: &'v mut Vec<u8>) -> Pairs<'v> {
        Pairs { out: Encoder::new(into), count: 0 }
    }

    pub(super) fn key(&mut self, key: &str) -> Result<&mut Out<'v>, minicbor::encode::Error<Infallible>> {
        self.count += 1;
        self.out.str(key)
    }

    pub(super) fn text(&mut self, key: &str, text: Option<&str>) -> Written {
        let out = self.key(key)?;
        optional(out, text)
    }

    /// A value that is CBOR already.
    fn ready(&mut self, key: &str, value: &[u8]) -> Written {
        self.key(key)?.writer_mut().extend_from_slice(value);
        Ok(())
    }

    /// So many pairs that are CBOR already.
    fn fixed(&mut self, Fixed { pairs, count }: &Fixed) {
        self.count += count;
        self.out.writer_mut().extend_from_slice(pairs);
    }
}

fn optional(out: &mut Out<'_>, text: Option<&str>) -> Written {
    match text {
        Some(text) => out.str(text)?.ok(),
        None => out.null()?.ok(),
    }
}

fn number(number: Option<f64>, out: &mut Out<'_>) -> Written {
    match number {
        Some(number) => out.f64(number)?.ok(),
        None => out.null()?.ok(),
    }
}

/// The record of a row that was judged, or was admitted and failed.
pub(super) fn of_row<S: Sink>(
    case: &Case<'_, S>,
    row: usize,
    told: &Told<'_>,
    entry: &mut JournalRecord,
) -> Written {
    let line = &case.work.lines[row];
    entry.id = line.id;
    let mut pairs = Pairs::new(&mut entry.pairs);
    match &line.state {
        State::Judged { verdict, score } => {
            entry.kind = RecordKind::Decision;
            head(case, score.map(|_| line.variant), told, &mut pairs)?;
            judged(case, row, (verdict, *score), told, &mut pairs)?;
        }
        State::Failed(fault) => {
            entry.kind = RecordKind::Failed;
            head(case, None, told, &mut pairs)?;
            failed(fault, &mut pairs)?;
            found(case, row, &mut pairs)?;
        }
        State::Open => {}
    }
    if case.whole(row) {
        pairs.fixed(&case.decision.preamble.masked);
    } else {
        pairs.key("sampled")?.bool(false)?;
    }
    entry.pairs_count = pairs.count;
    if case.whole(row) {
        case.decision.program.record.subject(&case.work.rows, row, &mut entry.subject);
        input(case, row, entry)?;
    }
    Ok(())
}

fn head<S: Sink>(
    case: &Case<'_, S>,
    variant: Option<usize>,
    told: &Told<'_>,
    pairs: &mut Pairs<'_>,
) -> Written {
    let preamble = &case.decision.preamble;
    pairs.key("at")?.i64(told.at_ns)?;
    pairs.key("mono")?.u64(told.mono.0)?;
    pairs.fixed(&preamble.head);
    match variant {
        Some(variant) => pairs.ready("models", &preamble.models[variant])?,
        None => pairs.key("models")?.array(0)?.ok()?,
    }
    pairs.text("protocol", Some(told.protocol))?;
    pairs.text("caller", told.caller)?;
    pairs.text("key", case.ask.idempotency_key.as_deref())?;
    pairs.text("trace", told.trace)?;
    pairs.key("single")?.bool(case.ask.single)?.ok()
}

fn failed(fault: &Fault, pairs: &mut Pairs<'_>) -> Written {
    let out = pairs.key("fault")?.array(3)?;
    out.str(fault.kind.label())?.str(fault.stage.label())?.str(&fault.text)?.ok()
}

fn judged<S: Sink>(
    case: &Case<'_, S>,
    row: usize,
    (verdict, score): (&Verdict, Option<f64>),
    told: &Told<'_>,
    pairs: &mut Pairs<'_>,
) -> Written {
    let (program, line) = (&case.decision.program, &case.work.lines[row]);
    let variant = score.map(|_| &*program.variants[line.variant].name);
    pairs.text("variant", variant)?;
    pairs.text("route", Some(way(program, line, score)))?;
    let (ran, names) = (case.work.ran.of(row), &case.decision.preamble.names);
    let models = ran.clone().count() as u64;
    let out = pairs.key("batch")?.array(models)?;
    for (model, ran) in ran.clone() {
        out.array(3)?.writer_mut().extend_from_slice(&names[model]);
        out.u32(ran.rows)?.u32(ran.position)?;
    }
    found(case, row, pairs)?;
    let out = pairs.key("scores")?.map(models)?;
    for (model, _) in ran.clone() {
        out.writer_mut().extend_from_slice(&names[model]);
        out.f64(case.work.scores.get(row, model))?;
    }
    if case.whole(row) {
        let out = pairs.key("outputs")?.map(models)?;
        for (model, ran) in ran {
            out.writer_mut().extend_from_slice(&names[model]);
            out.writer_mut().extend_from_slice(case.work.ran.outputs(ran));
        }
    }
    number(score, pairs.key("score")?)?;
    verdict_and_reasons(program, line, verdict, pairs)?;
    pairs.key("explain")?.bool(case.ask.explain)?;
    remedy(line.remedy, pairs)?;
    let out = pairs.key("timings")?.array(Stage::COUNT as u64)?;
    for took in told.timings {
        match took {
            Some(took) => out.u64(nanos(took))?,
            None => out.null()?,
        };
    }
    Ok(())
}

fn verdict_and_reasons(program: &Program, line: &Line, verdict: &Verdict, pairs: &mut Pairs<'_>) -> Written {
    pairs.text("outcome", Some(program.policy.outcome(verdict.outcome)))?;
    pairs.text("band", verdict.band.map(|band| &**program.policy.band(band)))?;
    let out = pairs.key("rules")?.array(verdict.fired.len() as u64)?;
    for &rule in &verdict.fired {
        out.str(KeyBuffer::new().format(rule))?;
    }
    let out = pairs.key("reasons")?.array(line.reasons.len() as u64)?;
    for reason in &line.reasons {
        out.array(3)?.str(&reason.code)?;
        match &reason.contribution {
            Some((field, contribution)) => out.str(field)?.f64(*contribution)?,
            None => out.null()?.null()?,
        };
    }
    Ok(())
}

fn remedy(remedied: Option<Remedied>, pairs: &mut Pairs<'_>) -> Written {
    let out = pairs.key("remedy")?;
    match remedied {
        Some(Remedied { cause, stage, remedy }) => {
            out.array(3)?.str(cause.label())?.str(stage.label())?.str(remedy.label())?.ok()
        }
        None => out.null()?.ok(),
    }
}

/// How a row came to its decision.
fn way(program: &Program, line: &Line, score: Option<f64>) -> &'static str {
    match (line.remedy.map(|remedied| remedied.remedy), score) {
        (Some(Remedy::Previous), Some(_)) => "fallback",
        (Some(Remedy::Outcome), None) => "declared",
        (_, Some(_)) if line.variant == 0 => "champion",
        (_, Some(_)) => "split",
        (None | Some(Remedy::Retry), None) if program.policy.kill_switch().is_some() => "kill_switch",
        (_, None) => "rules",
    }
}

/// The features that are not personal.
fn found<S: Sink>(case: &Case<'_, S>, row: usize, pairs: &mut Pairs<'_>) -> Written {
    if !case.whole(row) {
        return Ok(());
    }
    let which = &case.decision.preamble.features.plain;
    features(&case.decision.program, &case.work.rows, row, which, pairs.key("features")?)
}

/// Those of the features, each with where it came from.
fn features(program: &Program, rows: &Rows, row: usize, which: &[Kept], out: &mut Out<'_>) -> Written {
    out.map(which.len() as u64)?;
    for &Kept { place, ref before } in which {
        let (feature, fact) = (&program.features[place], rows.fact(row, place));
        out.writer_mut().extend_from_slice(before);
        value(feature.field(), rows, rows.value(row, feature.slot), out)?;
        out.str(fact.origin.label())?;
        match fact.age_ms {
            Some(age_ms) => out.u32(age_ms)?,
            None => out.null()?,
        };
    }
    Ok(())
}

/// How many of the fields were sent.
fn sent(rows: &Rows, row: usize, which: &[Kept]) -> usize {
    which.iter().filter(|kept| rows.value(row, kept.place) != Value::Missing).count()
}

/// Those of the fields that were sent, `count` of them.
fn fields(
    program: &Program,
    rows: &Rows,
    row: usize,
    (which, count): (&[Kept], usize),
    out: &mut Out<'_>,
) -> Written {
    out.map(count as u64)?;
    for &Kept { place, ref before } in which {
        let sent = rows.value(row, place);
        if sent != Value::Missing {
            out.writer_mut().extend_from_slice(before);
            value(&program.fields()[place], rows, sent, out)?;
        }
    }
    Ok(())
}

/// What was sent, and what is personal of that and of the features; nothing at all where there is none.
fn input<S: Sink>(case: &Case<'_, S>, row: usize, entry: &mut JournalRecord) -> Written {
    let (program, rows) = (&case.decision.program, &case.work.rows);
    let preamble = &case.decision.preamble;
    let plain = (&*preamble.fields.plain, sent(rows, row, &preamble.fields.plain));
    if plain.1 > 0 {
        fields(program, rows, row, plain, &mut Encoder::new(&mut entry.input))?;
    }
    let personal = (&*preamble.fields.personal, sent(rows, row, &preamble.fields.personal));
    let found = &*preamble.features.personal;
    // The caller's own id of a row is personal. Where nothing else is, and there is no subject, it would need a key for each
    // record: it is left out, for the caller has the decision's id.
    let sealed = personal.1 > 0 || !found.is_empty() || !entry.subject.is_empty();
    let id = rows.id(row).filter(|_| sealed);
    let parts = u64::from(personal.1 > 0) + u64::from(!found.is_empty()) + u64::from(id.is_some());
    if parts > 0 {
        let out = &mut Encoder::new(&mut entry.personal);
        out.map(parts)?;
        if personal.1 > 0 {
            fields(program, rows, row, personal, out.str("input")?)?;
        }
        if !found.is_empty() {
            features(program, rows, row, found, out.str("features")?)?;
        }
        if let Some(id) = id {
            out.str("row")?.str(id)?;
        }
    }
    Ok(())
}

fn value(field: &Field, rows: &Rows, value: Value, out: &mut Out<'_>) -> Written {
    match value {
        Value::Missing => out.null()?,
        Value::Bool(value) => out.bool(value)?,
        Value::Int(value) => out.i64(value)?,
        Value::Float(value) => out.f64(value)?,
        Value::Text(text) => out.str(rows.text(text))?,
        Value::Category(place) => match field.values.get(place as usize) {
            Some(text) => out.str(text)?,
            None => out.null()?,
        },
        Value::Time(nanos) => {
            let (seconds, rest) = (nanos.div_euclid(NANOS_PER_SECOND), nanos.rem_euclid(NANOS_PER_SECOND));
            out.tag(EXTENDED_TIME)?.map(2)?.i8(1)?.i64(seconds)?.i8(-9)?.i64(rest)?
        }
    }
    .ok()
}

/// That a decision's client had hung up.
pub(super) fn undelivered(recorder: &dyn LaneRecorder, id: DecisionId, at_ns: i64) -> Box<JournalRecord> {
    let mut entry = recorder.blank();
    (entry.kind, entry.id) = (RecordKind::Undelivered, id);
    let mut pairs = Pairs::new(&mut entry.pairs);
    never(pairs.key("at").and_then(|out| out.i64(at_ns)?.ok()));
    entry.pairs_count = pairs.count;
    entry
}

/// What a shadow made of a row; `variant`: none is the policy.
pub(super) struct Judged<'d> {
    pub(super) variant: Option<usize>,
    pub(super) score: Option<f64>,
    pub(super) outcome: &'d str,
    pub(super) agrees: bool,
}

pub(super) fn shadow<M>(
    recorder: &dyn LaneRecorder,
    decision: &Decision<M>,
    id: DecisionId,
    at_ns: i64,
    judged: Judged<'_>,
) -> Box<JournalRecord> {
    let mut entry = recorder.blank();
    (entry.kind, entry.id) = (RecordKind::Shadow, id);
    let mut pairs = Pairs::new(&mut entry.pairs);
    never(shadow_pairs(decision, at_ns, judged, &mut pairs));
    entry.pairs_count = pairs.count;
    entry
}

fn shadow_pairs<M>(decision: &Decision<M>, at_ns: i64, judged: Judged<'_>, pairs: &mut Pairs<'_>) -> Written {
    let variant = judged.variant.map(|variant| &*decision.program.variants[variant].name);
    pairs.key("at")?.i64(at_ns)?;
    pairs.text("decision", Some(&decision.name))?;
    pairs.text("of", Some(if variant.is_some() { "variant" } else { "policy" }))?;
    pairs.text("variant", variant)?;
    number(judged.score, pairs.key("score")?)?;
    pairs.text("outcome", Some(judged.outcome))?;
    pairs.key("agrees")?.bool(judged.agrees)?.ok()
}
