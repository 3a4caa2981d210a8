//! Encodes decisions as JSON, straight into the lane's buffer.
//!
//! Floats use the shortest form that parses back to the same value.

use super::problem::Problem;
use bytes::{BufMut, BytesMut};
use flyball_core::{
    Decided, DecidedBy, DecidedRow, Decisions, Digest, Fault, FaultKind, Reason, Remedied, RowOutcome, Stage,
};
use std::fmt::Write;
use std::time::Duration;

/// The approximate size of one decision; it may be larger.
const ROW_BYTES: usize = 512;
const HEAD_BYTES: usize = 512;

pub(super) fn write(decisions: &Decisions, out: &mut BytesMut) -> Result<(), Fault> {
    out.reserve(HEAD_BYTES + decisions.rows.len() * ROW_BYTES);
    if decisions.single {
        let decided = only(decisions)?;
        out.put_slice(b"{\"id\":");
        put_shown(&decided.id, out);
        put_key("decision", out);
        put_text(&decisions.decision, out);
        write_decided(decided, out)?;
    } else {
        out.put_slice(b"{\"decision\":");
        put_text(&decisions.decision, out);
        put_key("rows", out);
        out.put_u8(b'[');
        for (place, row) in decisions.rows.iter().enumerate() {
            if place > 0 {
                out.put_u8(b',');
            }
            write_row(row, out)?;
        }
        out.put_u8(b']');
    }
    write_tail(decisions, out)
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
    match &row.id {
        Some(id) => put_text(id, out),
        None => out.put_slice(b"null"),
    }
    match &row.outcome {
        RowOutcome::Decided(decided) => {
            put_key("decision_id", out);
            put_shown(&decided.id, out);
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
fn write_decided(decided: &Decided, out: &mut BytesMut) -> Result<(), Fault> {
    put_key("outcome", out);
    put_text(&decided.outcome, out);
    put_key("band", out);
    put_text_or_null(decided.band.as_deref(), out);
    put_key("score", out);
    match decided.score {
        Some(score) => put_number(score, out)?,
        None => out.put_slice(b"null"),
    }
    if !decided.scores.is_empty() {
        put_key("scores", out);
        for (place, (model, score)) in decided.scores.iter().enumerate() {
            out.put_u8(if place == 0 { b'{' } else { b',' });
            put_text(model, out);
            out.put_u8(b':');
            put_number_or_null(*score, out)?;
        }
        out.put_u8(b'}');
    }
    put_key("reasons", out);
    out.put_u8(b'[');
    for (place, reason) in decided.reasons.iter().enumerate() {
        if place > 0 {
            out.put_u8(b',');
        }
        write_reason(reason, out)?;
    }
    out.put_u8(b']');
    put_key("route", out);
    put_text_or_null(decided.variant.as_deref(), out);
    put_key("remedy", out);
    write_remedy(decided.remedy.as_ref(), out);
    Ok(())
}

fn write_reason(reason: &Reason, out: &mut BytesMut) -> Result<(), Fault> {
    out.put_slice(b"{\"code\":");
    put_text(&reason.code, out);
    if let Some(text) = &reason.text {
        put_key("text", out);
        put_text(text, out);
    }
    if let Some((field, contribution)) = &reason.contribution {
        put_key("field", out);
        put_text(field, out);
        put_key("contribution", out);
        put_number_or_null(*contribution, out)?;
    }
    out.put_u8(b'}');
    Ok(())
}

fn write_remedy(remedy: Option<&Remedied>, out: &mut BytesMut) {
    let Some(remedy) = remedy else { return out.put_slice(b"null") };
    out.put_slice(b"{\"cause\":\"");
    out.put_slice(remedy.cause.label().as_bytes());
    out.put_slice(b"\",\"stage\":\"");
    out.put_slice(remedy.stage.label().as_bytes());
    out.put_slice(b"\",\"used\":\"");
    out.put_slice(remedy.remedy.label().as_bytes());
    out.put_slice(b"\"}");
}

/// The fields that all rows share.
fn write_tail(decisions: &Decisions, out: &mut BytesMut) -> Result<(), Fault> {
    put_key("models", out);
    write_models(&decisions.models, out);
    put_key("document", out);
    put_digest(&decisions.document, out);
    put_key("policy", out);
    put_digest(&decisions.policy, out);
    put_key("schema", out);
    put_digest(&decisions.schema, out);
    if decisions.repeated {
        put_key("repeated", out);
        out.put_slice(b"true");
    }
    if let Some(timings) = &decisions.timings {
        put_key("timings_us", out);
        out.put_u8(b'{');
        let mut first = true;
        for (stage, took) in timed(timings) {
            out.put_slice(if first { b"\"" } else { b",\"" });
            first = false;
            out.put_slice(stage.label().as_bytes());
            out.put_slice(b"\":");
            put_number(microseconds(took), out)?;
        }
        out.put_u8(b'}');
    }
    out.put_u8(b'}');
    Ok(())
}

fn write_models(models: &[DecidedBy], out: &mut BytesMut) {
    out.put_u8(b'[');
    for (place, by) in models.iter().enumerate() {
        out.put_slice(if place == 0 { b"{\"model\":" } else { b",{\"model\":" });
        put_text(&by.model, out);
        put_key("version", out);
        put_text(&by.version, out);
        put_key("digest", out);
        put_digest(&by.digest, out);
        out.put_u8(b'}');
    }
    out.put_u8(b']');
}

/// The reached stages with their durations.
pub(super) fn timed(timings: &[Option<Duration>; Stage::COUNT]) -> impl Iterator<Item = (Stage, Duration)> {
    Stage::ALL.into_iter().zip(timings).filter_map(|(stage, took)| Some((stage, (*took)?)))
}

pub(super) fn microseconds(took: Duration) -> f64 {
    took.as_nanos() as f64 / 1000.0
}

/// A key that is not the first of its object.
pub(super) fn put_key(key: &str, out: &mut BytesMut) {
    out.put_slice(b",\"");
    out.put_slice(key.as_bytes());
    out.put_slice(b"\":");
}

pub(super) fn put_text(text: &str, out: &mut BytesMut) {
    // Writing a text into memory cannot fail.
    let _ = serde_json::to_writer(out.writer(), text);
}

fn put_text_or_null(text: Option<&str>, out: &mut BytesMut) {
    match text {
        Some(text) => put_text(text, out),
        None => out.put_slice(b"null"),
    }
}

fn put_digest(digest: &Digest, out: &mut BytesMut) {
    put_shown(digest, out);
}

/// A value whose text needs no escapes.
fn put_shown(shown: &dyn std::fmt::Display, out: &mut BytesMut) {
    let _ = write!(out, "\"{shown}\"");
}

/// Other numbers of a model besides the score: a non-finite one does not withhold the decision.
fn put_number_or_null(number: f64, out: &mut BytesMut) -> Result<(), Fault> {
    if number.is_finite() {
        return put_number(number, out);
    }
    out.put_slice(b"null");
    Ok(())
}

fn put_number(number: f64, out: &mut BytesMut) -> Result<(), Fault> {
    if !number.is_finite() {
        let text = format!("the response contains {number}, which JSON cannot represent; use gRPC");
        return Err(Fault::new(FaultKind::AnswerNotRepresentable, Stage::Respond, text));
    }
    let _ = serde_json::to_writer(out.writer(), &number);
    Ok(())
}
