//! Parses a `DecideRequest` field by field from its bytes, without building a message.
//!
//! Rows are counted as they come: two bytes of message can request a whole row.

use crate::fields::{Field, Fields, map_entry};
use bytes::Bytes;
use bytestring::ByteString;
use flyball_core::{Fault, RequestLimits, RowSink, RowsOptions, Scalar};

// Field numbers of DecideRequest, then of its parts.
const DECISION: u32 = 1;
const INPUT: u32 = 2;
const ROWS: u32 = 3;
const EXPLAIN: u32 = 4;
const TIMINGS: u32 = 5;
const ROW_ID: u32 = 1;
const ROW_INPUT: u32 = 2;
const NULL: u32 = 1;
const BOOL: u32 = 2;
const INT: u32 = 3;
const DOUBLE: u32 = 4;
const TEXT: u32 = 5;

/// The decision that a message names; empty if none.
pub(super) fn decision(message: &Bytes) -> Result<ByteString, Fault> {
    let mut name = ByteString::new();
    for field in Fields::of(message) {
        let field = field?;
        if field.tag == DECISION {
            let text = field.text()?;
            name = ByteString::try_from(message.slice_ref(text.as_bytes())).unwrap_or_default();
        }
    }
    Ok(name)
}

pub(super) fn read(
    message: &Bytes,
    limits: &RequestLimits,
    take: &mut dyn RowSink,
) -> Result<RowsOptions, Fault> {
    let (mut ask, mut rows, mut inputs) = (RowsOptions::default(), 0, false);
    for field in Fields::of(message) {
        let field = field?;
        match field.tag {
            DECISION => drop(field.text()?),
            INPUT => inputs = true,
            ROWS => rows += 1,
            EXPLAIN => ask.explain = field.varint()? != 0,
            TIMINGS => ask.timings = field.varint()? != 0,
            _ => {}
        }
    }
    if inputs && rows > 0 {
        return Err(Fault::malformed(
            "the request has both input and rows; give input for one row or rows for many",
        ));
    }
    let most = limits.decision_rows_max;
    if rows > most {
        let text = format!("{rows} rows exceed the limit of {most}; send several requests");
        return Err(Fault::malformed(text));
    }
    ask.single = rows == 0;
    if ask.single {
        take.row(None);
        read_fields(message, INPUT, take)?;
    }
    for row in Fields::of(message).each(ROWS) {
        read_row(row?, limits, take)?;
    }
    Ok(ask)
}

fn read_row(message: &[u8], limits: &RequestLimits, take: &mut dyn RowSink) -> Result<(), Fault> {
    let mut id = "";
    for field in Fields::of(message) {
        let field = field?;
        if field.tag == ROW_ID {
            id = field.text()?;
        }
    }
    if id.len() > limits.name_bytes_max {
        let (length, most) = (id.len(), limits.name_bytes_max);
        return Err(Fault::malformed(format!("a row's id has {length} bytes; at most {most} are allowed")));
    }
    take.row((!id.is_empty()).then_some(id));
    read_fields(message, ROW_INPUT, take)
}

/// The entries of the map with this number.
fn read_fields(message: &[u8], tag: u32, take: &mut dyn RowSink) -> Result<(), Fault> {
    for entry in Fields::of(message).each(tag) {
        let (name, value) = map_entry(entry?, Scalar::Null, choose)?;
        take.field(name, value);
    }
    Ok(())
}

/// The last field of a oneof counts.
fn choose<'m>(kind: &Field<'m>, before: Scalar<'m>) -> Result<Scalar<'m>, Fault> {
    match kind.tag {
        NULL => kind.varint().map(|_| Scalar::Null),
        BOOL => kind.varint().map(|flag| Scalar::Bool(flag != 0)),
        // An int64 is encoded as the varint of its two's complement.
        INT => kind.varint().map(|number| Scalar::Int(number.cast_signed())),
        DOUBLE => kind.double().map(|number| match number.is_finite() {
            true => Scalar::Float(number),
            false => Scalar::Other("a number that is not finite"),
        }),
        TEXT => kind.text().map(Scalar::Text),
        _ => Ok(before),
    }
}
