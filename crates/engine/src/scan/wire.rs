//! Protobuf's wire format, walked without copying. Knows nothing of the fields' meaning.
//!
//! A message is a sequence of numbered fields, each a number, eight or four bytes, or a piece of the file.

use super::refusal::{Finding, ScanError};
use prost::encoding::{WireType, decode_key, decode_varint};

/// A piece of the file and its offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Number(u64),
    /// Four or eight bytes: a floating-point number.
    Fixed(&'a [u8]),
    Piece(Piece<'a>),
}

/// The fields of one message, in file order.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    end: usize,
}

impl<'a> Piece<'a> {
    pub(super) fn fields(self) -> Fields<'a> {
        Fields { rest: self.bytes, end: self.at + self.bytes.len() }
    }

    pub(super) fn text(self) -> Result<&'a str, ScanError> {
        std::str::from_utf8(self.bytes)
            .map_err(|_| Finding::malformed(format!("a text that is not UTF-8 (byte {})", self.at)))
    }

    /// For messages only: marks invalid UTF-8 and truncates.
    pub(super) fn shown(self) -> String {
        const CHARACTERS_MAX: usize = 64;
        let start = &self.bytes[..self.bytes.len().min(4 * CHARACTERS_MAX)];
        String::from_utf8_lossy(start).chars().take(CHARACTERS_MAX).collect()
    }
}

impl<'a> Value<'a> {
    pub(super) fn piece(self) -> Result<Piece<'a>, ScanError> {
        match self {
            Value::Piece(piece) => Ok(piece),
            _ => Err(Finding::malformed("a number where a message or a text is expected")),
        }
    }

    pub(super) fn number(self) -> Result<u64, ScanError> {
        match self {
            Value::Number(number) => Ok(number),
            _ => Err(Finding::malformed("a number is expected here")),
        }
    }

    /// The bytes it occupies in the file, without its key.
    pub(super) fn length(self) -> u64 {
        match self {
            Value::Piece(piece) => piece.bytes.len() as u64,
            Value::Number(_) | Value::Fixed(_) => 8,
        }
    }
}

impl<'a> Fields<'a> {
    fn at(&self) -> usize {
        self.end - self.rest.len()
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), ScanError> {
        let at = self.at();
        let broken = |what: &str| Finding::malformed(format!("{what} (byte {at})"));
        let (number, kind) = decode_key(&mut self.rest).map_err(|_| broken("a key of a field is broken"))?;
        let value = match kind {
            WireType::Varint => {
                Value::Number(decode_varint(&mut self.rest).map_err(|_| broken("a number is broken"))?)
            }
            WireType::ThirtyTwoBit => self.skip(4)?,
            WireType::SixtyFourBit => self.skip(8)?,
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.rest).map_err(|_| broken("a length is broken"))?;
                Value::Piece(self.take(length)?)
            }
            // ONNX has no groups, and skipping one means recursion, which has broken other readers.
            WireType::StartGroup | WireType::EndGroup => {
                return Err(broken("a group, which ONNX does not use"));
            }
        };
        Ok((number, value))
    }

    fn skip(&mut self, length: u64) -> Result<Value<'a>, ScanError> {
        self.take(length).map(|piece| Value::Fixed(piece.bytes))
    }

    fn take(&mut self, length: u64) -> Result<Piece<'a>, ScanError> {
        let (at, left) = (self.at(), self.rest.len());
        let Some((bytes, rest)) =
            usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length))
        else {
            let what = format!(
                "a field of {length} bytes where only {left} remain (byte {at}); is the file truncated?"
            );
            return Err(Finding::malformed(what));
        };
        self.rest = rest;
        Ok(Piece { bytes, at })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Sets a field that may occur once. Readers merge a second one into the first, or take the last: a scan must
/// not guess.
pub(super) fn set_once<T>(field: &mut Option<T>, value: T, what: &str) -> Result<(), ScanError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Finding::malformed(format!("{what} is given twice"))),
    }
}
