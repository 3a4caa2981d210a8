//! Encodes decisions as JSON, straight into the lane's buffer.
//!
//! Floats use the shortest form that parses back to the same value.

use super::problem::Problem;
use bytes::{BufMut, BytesMut};
use flyball_core::{Decided, DecidedRow, Decisions, Digest, Fault, FaultKind, RowOutcome, Stage};
use serde::{Serialize, Serializer};
use std::fmt::Write;
use std::time::Duration;

/// The approximate size of one decision; it may be larger.
const ROW_BYTES: usize = 512;
const HEAD_BYTES: usize = 512;

#[derive(Serialize)]
struct Reason<'a> {
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contribution: Option<f64>,
}

#[derive(Serialize)]
struct Remedy {
    cause: &'static str,
    stage: &'static str,
    used: &'static str,
}

#[derive(Serialize)]
struct Model<'a> {
    model: &'a str,
    version: &'a str,
    digest: &'a Digest,
}

pub(super) fn write(decisions: &Decisions, out: &mut BytesMut) -> Result<(), Fault> {
    out.reserve(HEAD_BYTES + decisions.rows.len() * ROW_BYTES);
    if decisions.single {
        let decided = only(decisions)?;
        let _ = write!(out, "{{\"id\":\"{}\"", decided.id);
        put("decision", &decisions.decision, out);
        write_decided(decided, out)?;
    } else {
        out.put_slice(b"{\"decision\":");
        put_value(&decisions.decision, out);
        out.put_slice(b",\"rows\":[");
        for (place, row) in decisions.rows.iter().enumerate() {
            if place > 0 {
                out.put_u8(b',');
            }
            write_row(row, out)?;
        }
        out.put_u8(b']');
    }
    write_tail(decisions, out);
    Ok(())
}

/// The single row of a request that was not a list. If it was not decided, that is the request's fault.
pub(super) fn only(decisions: &Decisions) -> Result<&Decided, Fault> {
    match decisions.rows.first().map(|row| &row.outcome) {
        Some(RowOutcome::Decided(decided)) => Ok(decided),
        Some(RowOutcome::Invalid(faults)) => Err(Fault::fields_invalid(Stage::Parse, faults.clone())),
        Some(RowOutcome::Failed { kind, stage, text }) => Err(Fault::new(*kind, *stage, text.clone())),
        None => {
            Err(Fault::new(FaultKind::Panicked, Stage::Respond, "no row was decided; report this as a bug"))
        }
    }
}

fn write_row(row: &DecidedRow, out: &mut BytesMut) -> Result<(), Fault> {
    out.put_slice(b"{\"id\":");
    put_value(&row.id.as_deref(), out);
    match &row.outcome {
        RowOutcome::Decided(decided) => {
            let _ = write!(out, ",\"decision_id\":\"{}\"", decided.id);
            write_decided(decided, out)?;
        }
        RowOutcome::Invalid(fields) => {
            let fault = Fault::fields_invalid(Stage::Parse, fields.clone());
            put_key("fault", out);
            Problem::of(&fault, None).write(out);
        }
        RowOutcome::Failed { kind, text, .. } => {
            put_key("fault", out);
            Problem { kind: Some(*kind), ..Problem::plain(kind.http(), text) }.write(out);
        }
    }
    out.put_u8(b'}');
    Ok(())
}

/// The fields after the ids.
///
/// A score that is not finite is a fault. Other numbers of a model become null instead: they do not withhold
/// the decision.
fn write_decided(decided: &Decided, out: &mut BytesMut) -> Result<(), Fault> {
    if let Some(score) = decided.score.filter(|score| !score.is_finite()) {
        let text = format!("the response contains {score}, which JSON cannot represent; use gRPC");
        return Err(Fault::new(FaultKind::AnswerNotRepresentable, Stage::Respond, text));
    }
    put("outcome", &decided.outcome, out);
    put("band", &decided.band, out);
    put("score", &decided.score, out);
    if !decided.scores.is_empty() {
        put_map("scores", decided.scores.iter().map(|(model, score)| (model, score)), out);
    }
    let reasons = decided.reasons.iter().map(|reason| {
        let contribution = reason.contribution.as_ref();
        let (field, contribution) = contribution.map(|(field, part)| (&**field, *part)).unzip();
        Reason { code: &reason.code, text: reason.text.as_deref(), field, contribution }
    });
    put_list("reasons", reasons, out);
    put("route", &decided.variant, out);
    let remedy = decided.remedy.map(|by| Remedy {
        cause: by.cause.label(),
        stage: by.stage.label(),
        used: by.remedy.label(),
    });
    put("remedy", &remedy, out);
    Ok(())
}

/// The fields that all rows share.
fn write_tail(decisions: &Decisions, out: &mut BytesMut) {
    let models = decisions.models.iter();
    let model = models.map(|by| Model { model: &by.model, version: &by.version, digest: &by.digest });
    put_list("models", model, out);
    put("document", &decisions.document, out);
    put("policy", &decisions.policy, out);
    put("schema", &decisions.schema, out);
    if decisions.repeated {
        put("repeated", &true, out);
    }
    if let Some(timings) = &decisions.timings {
        put_map("timings_us", timed(timings).map(|(stage, took)| (stage.label(), microseconds(took))), out);
    }
    out.put_u8(b'}');
}

/// The reached stages with their durations.
pub(super) fn timed(timings: &[Option<Duration>; Stage::COUNT]) -> impl Iterator<Item = (Stage, Duration)> {
    Stage::ALL.into_iter().zip(timings).filter_map(|(stage, took)| Some((stage, (*took)?)))
}

pub(super) fn microseconds(took: Duration) -> f64 {
    took.as_nanos() as f64 / 1000.0
}

/// A key that is not the first of its object.
fn put_key(key: &str, out: &mut BytesMut) {
    out.put_slice(b",\"");
    out.put_slice(key.as_bytes());
    out.put_slice(b"\":");
}

/// A key that is not the first of its object, and its value.
pub(super) fn put(key: &str, value: &(impl Serialize + ?Sized), out: &mut BytesMut) {
    put_key(key, out);
    put_value(value, out);
}

fn put_value(value: &(impl Serialize + ?Sized), out: &mut BytesMut) {
    // Writing texts and numbers into memory cannot fail.
    let _ = serde_json::to_writer(out.writer(), value);
}

pub(super) fn put_list(key: &str, items: impl Iterator<Item: Serialize>, out: &mut BytesMut) {
    put_key(key, out);
    let _ = serde_json::Serializer::new(out.writer()).collect_seq(items);
}

fn put_map<V: Serialize>(key: &str, entries: impl Iterator<Item = (impl Serialize, V)>, out: &mut BytesMut) {
    put_key(key, out);
    let _ = serde_json::Serializer::new(out.writer()).collect_map(entries);
}
