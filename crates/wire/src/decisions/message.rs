//! Encodes a `DecideResponse` in its gRPC frame, straight into a buffer.
//!
//! A nested message's length is known once it is written, so the message is then moved to insert it: they are
//! small, and nothing is computed twice.

use super::answer::{microseconds, only, timed};
use crate::fields::{put_bytes, put_text};
use crate::frame;
use bytes::{BufMut, BytesMut};
use flyball_core::{Decided, DecidedRow, Decisions, Fault, FaultKind, FieldFault, Reason, RowOutcome, Stage};
use prost::encoding::{WireType, encode_key, encode_varint};
use std::fmt::{Display, Write};

pub(super) fn write(decisions: &Decisions, out: &mut BytesMut) -> Result<(), Fault> {
    if decisions.single {
        // For a single row, its fault is the call's status.
        only(decisions)?;
    }
    frame::write(out, |out| write_response(decisions, out))
}

fn write_response(decisions: &Decisions, out: &mut BytesMut) {
    put_text(1, &decisions.decision, out);
    for row in &decisions.rows {
        put_nested(2, out, |out| write_row(row, out));
    }
    for by in decisions.models.iter() {
        put_nested(3, out, |out| {
            put_text(1, &by.model, out);
            put_text(2, &by.version, out);
            put_shown(3, &by.digest, out);
        });
    }
    put_shown(4, &decisions.policy, out);
    put_shown(5, &decisions.schema, out);
    if decisions.repeated {
        put_varint(6, 1, out);
    }
    for (stage, took) in decisions.timings.iter().flat_map(timed) {
        put_nested(7, out, |out| {
            put_text(1, stage.label(), out);
            put_double(2, microseconds(took), out);
        });
    }
    put_shown(8, &decisions.document, out);
}

fn write_row(row: &DecidedRow, out: &mut BytesMut) {
    put_text(1, row.id.as_deref().unwrap_or_default(), out);
    match &row.outcome {
        RowOutcome::Decided(decided) => put_nested(2, out, |out| write_decided(decided, out)),
        RowOutcome::Invalid(faults) => {
            let fault = Fault::fields_invalid(Stage::Parse, faults.clone());
            put_nested(3, out, |out| write_fault(fault.kind, &fault.text, &fault.fields, out));
        }
        RowOutcome::Failed { kind, text, .. } => put_nested(3, out, |out| write_fault(*kind, text, &[], out)),
    }
}

fn write_decided(decided: &Decided, out: &mut BytesMut) {
    put_shown(1, &decided.id, out);
    put_text(2, &decided.outcome, out);
    if let Some(band) = &decided.band {
        put_bytes(3, band.as_bytes(), out);
    }
    if let Some(score) = decided.score {
        put_double(4, score, out);
    }
    for (model, score) in &decided.scores {
        put_nested(5, out, |out| {
            put_text(1, model, out);
            put_double(2, *score, out);
        });
    }
    for reason in &decided.reasons {
        put_nested(6, out, |out| write_reason(reason, out));
    }
    if let Some(variant) = &decided.variant {
        put_bytes(7, variant.as_bytes(), out);
    }
    if let Some(remedy) = &decided.remedy {
        put_nested(8, out, |out| {
            put_text(1, remedy.cause.label(), out);
            put_text(2, remedy.stage.label(), out);
            put_text(3, remedy.remedy.label(), out);
        });
    }
}

fn write_reason(reason: &Reason, out: &mut BytesMut) {
    put_text(1, &reason.code, out);
    if let Some(text) = &reason.text {
        put_bytes(2, text.as_bytes(), out);
    }
    if let Some((field, contribution)) = &reason.contribution {
        put_bytes(3, field.as_bytes(), out);
        put_double(4, *contribution, out);
    }
}

fn write_fault(kind: FaultKind, detail: &str, fields: &[FieldFault], out: &mut BytesMut) {
    put_text(1, kind.label(), out);
    put_text(2, detail, out);
    for fault in fields {
        put_nested(3, out, |out| {
            put_text(1, &fault.field, out);
            if let Some(is) = &fault.is {
                put_bytes(2, is.as_bytes(), out);
            }
            put_text(3, &fault.allowed, out);
        });
    }
}

/// A value in its display form.
fn put_shown(tag: u32, shown: &dyn Display, out: &mut BytesMut) {
    put_nested(tag, out, |out| {
        let _ = write!(out, "{shown}");
    });
}

fn put_varint(tag: u32, number: u64, out: &mut BytesMut) {
    encode_key(tag, WireType::Varint, out);
    encode_varint(number, out);
}

fn put_double(tag: u32, number: f64, out: &mut BytesMut) {
    encode_key(tag, WireType::SixtyFourBit, out);
    out.put_f64_le(number);
}

fn put_nested(tag: u32, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    encode_key(tag, WireType::LengthDelimited, out);
    let start = out.len();
    write(out);
    let end = out.len();
    encode_varint((end - start) as u64, out);
    let length_bytes = out.len() - end;
    // The length precedes its message: the two are swapped.
    out[start..].rotate_right(length_bytes);
}
