//! Iterates over the fields of a protobuf message as slices, and writes fields.
//!
//! Decodes only what is requested and copies nothing. Knows the wire format and no message.

use bytes::{Buf, BufMut, BytesMut};
use flyball_core::Fault;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};
use std::fmt::Display;

// Field numbers of a map's entry.
const ENTRY_KEY: u32 = 1;
const ENTRY_VALUE: u32 = 2;

pub(crate) fn malformed(what: impl Display) -> Fault {
    Fault::malformed(format!("the message does not decode: {what}"))
}

#[derive(Clone, Copy)]
pub(crate) struct Field<'m> {
    pub(crate) tag: u32,
    value: Value<'m>,
}

#[derive(Clone, Copy)]
enum Value<'m> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'m [u8]),
    /// A fixed32 or a group, which no known field has.
    Other,
}

impl<'m> Field<'m> {
    pub(crate) fn varint(&self) -> Result<u64, Fault> {
        if let Value::Varint(number) = self.value { Ok(number) } else { Err(self.wrong_type()) }
    }

    pub(crate) fn double(&self) -> Result<f64, Fault> {
        if let Value::Fixed64(bits) = self.value { Ok(f64::from_bits(bits)) } else { Err(self.wrong_type()) }
    }

    pub(crate) fn bytes(&self) -> Result<&'m [u8], Fault> {
        if let Value::Bytes(bytes) = self.value { Ok(bytes) } else { Err(self.wrong_type()) }
    }

    pub(crate) fn text(&self) -> Result<&'m str, Fault> {
        let not_utf8 = |error| malformed(format_args!("field {} is not UTF-8: {error}", self.tag));
        std::str::from_utf8(self.bytes()?).map_err(not_utf8)
    }

    /// A list of varints, packed or with one of them in this field.
    pub(crate) fn varints(&self) -> Result<Varints<'m>, Fault> {
        match self.value {
            Value::Varint(number) => Ok(Varints { first: Some(number), packed: &[] }),
            _ => Ok(Varints { first: None, packed: self.bytes()? }),
        }
    }

    fn wrong_type(&self) -> Fault {
        malformed(format_args!("field {} has the wrong wire type", self.tag))
    }
}

pub(crate) struct Varints<'m> {
    first: Option<u64>,
    pub(crate) packed: &'m [u8],
}

impl Iterator for Varints<'_> {
    type Item = Result<u64, Fault>;

    fn next(&mut self) -> Option<Result<u64, Fault>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        self.packed.has_remaining().then(|| decode_varint(&mut self.packed).map_err(malformed))
    }
}

/// An entry of a map: its key, and its value, a oneof whose last field counts.
pub(crate) fn map_entry<'m, T>(
    message: &'m [u8],
    unset: T,
    choose: impl Fn(&Field<'m>, T) -> Result<T, Fault>,
) -> Result<(&'m str, T), Fault> {
    let (mut key, mut value) = ("", unset);
    for field in Fields::of(message) {
        let field = field?;
        match field.tag {
            ENTRY_KEY => key = field.text()?,
            ENTRY_VALUE => {
                for choice in Fields::of(field.bytes()?) {
                    value = choose(&choice?, value)?;
                }
            }
            _ => {}
        }
    }
    Ok((key, value))
}

/// Ends after the first malformed field.
#[derive(Clone)]
pub(crate) struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    pub(crate) fn of(message: &'m [u8]) -> Fields<'m> {
        Fields(message)
    }

    /// The length-delimited fields with this number.
    pub(crate) fn each(self, tag: u32) -> impl Iterator<Item = Result<&'m [u8], Fault>> {
        self.filter_map(move |field| match field {
            Ok(field) => (field.tag == tag).then(|| field.bytes()),
            Err(fault) => Some(Err(fault)),
        })
    }

    fn read(&mut self) -> Result<Field<'m>, Fault> {
        let (tag, wire_type) = decode_key(&mut self.0).map_err(malformed)?;
        let value = match wire_type {
            WireType::Varint => Value::Varint(decode_varint(&mut self.0).map_err(malformed)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.0).map_err(malformed)?;
                let parts = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
                let (bytes, rest) =
                    parts.ok_or_else(|| malformed(format_args!("field {tag} is truncated")))?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            WireType::SixtyFourBit => {
                Value::Fixed64(self.0.try_get_u64_le().map_err(|_short| malformed("it is truncated"))?)
            }
            WireType::ThirtyTwoBit | WireType::StartGroup | WireType::EndGroup => {
                skip_field(wire_type, tag, &mut self.0, DecodeContext::default()).map_err(malformed)?;
                Value::Other
            }
        };
        Ok(Field { tag, value })
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = Result<Field<'m>, Fault>;

    fn next(&mut self) -> Option<Result<Field<'m>, Fault>> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// The header of a length-delimited field.
pub(crate) fn put_length(tag: u32, length: usize, out: &mut BytesMut) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(length as u64, out);
}

pub(crate) fn put_bytes(tag: u32, bytes: &[u8], out: &mut BytesMut) {
    put_length(tag, bytes.len(), out);
    out.put_slice(bytes);
}

/// Omits an empty text.
pub(crate) fn put_text(tag: u32, text: &str, out: &mut BytesMut) {
    if !text.is_empty() {
        put_bytes(tag, text.as_bytes(), out);
    }
}
