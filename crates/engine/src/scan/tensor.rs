//! A tensor of weights: its declared size, and its location in an external file. Skips its elements.

use super::refusal::{At, Finding, ScanError};
use super::wire::{Fields, Piece, Value, set_once};
use super::{Scan, over};

/// The name of the limit on all weights.
const WEIGHTS: &str = "bytes of weights";
const WEIGHTS_ADVICE: &str = "serve a smaller model, or one in a shorter type";
const RANK_MAX: u64 = 64;
const BROKEN_AXIS: &str = "an axis is broken";

#[derive(Default)]
struct Tensor<'a> {
    elements: u64,
    rank: u64,
    data_type: u64,
    name: Option<Piece<'a>>,
    external: bool,
    entries: Vec<(&'a str, &'a str)>,
}

impl<'a> Scan<'a> {
    /// An initialiser, or a tensor inside an attribute.
    pub(super) fn tensor(&mut self, piece: Piece<'a>) -> Result<(), ScanError> {
        let mut tensor = Tensor { elements: 1, ..Tensor::default() };
        let read = tensor.read(piece.fields()).and_then(|()| self.weigh(&tensor, piece.bytes.len() as u64));
        read.at(|| format!("tensor '{}'", tensor.name.map(Piece::shown).unwrap_or_default()))
    }

    pub(super) fn sparse_tensor(&mut self, piece: Piece<'a>) -> Result<(), ScanError> {
        let mut once = [None; 2];
        for field in piece.fields() {
            let (number, value) = field?;
            let (place, what) = match number {
                1 => (0, "the values"),
                2 => (1, "the indices"),
                _ => continue,
            };
            set_once(&mut once[place], (), what)?;
            self.tensor(value.piece()?).at(|| format!("{what} of a sparse tensor"))?;
        }
        Ok(())
    }

    fn weigh(&mut self, tensor: &Tensor<'a>, carried: u64) -> Result<(), ScanError> {
        let most = self.limits.weight_bytes_max;
        let declared = tensor.bytes().unwrap_or(u64::MAX);
        // Entries without the flag are checked too: loaders have disagreed on which of the two counts.
        let held = if tensor.external || !tensor.entries.is_empty() {
            self.external(tensor, declared)?.max(declared)
        } else {
            declared.max(carried)
        };
        self.facts.weight_bytes = self.facts.weight_bytes.saturating_add(held);
        over(WEIGHTS, self.facts.weight_bytes, most, WEIGHTS_ADVICE)
    }

    /// Notes the external bytes that it uses; returns how many.
    fn external(&mut self, tensor: &Tensor<'a>, declared: u64) -> Result<u64, ScanError> {
        let mut found: [Option<&str>; 3] = [None; 3];
        for &(key, value) in &tensor.entries {
            let place = match key {
                "location" => 0,
                "offset" => 1,
                "length" => 2,
                "checksum" => continue,
                other => return Err(Finding::ExternalDataKey(shortened(other)).into()),
            };
            set_once(&mut found[place], value, &format!("the {key} of external data"))?;
        }
        let [location, offset, length] = found;
        let name = location.unwrap_or_default();
        // `*/_ORT_MEM_ADDR_/*` would let a file name an address in this process's memory. It has slashes; the
        // marker itself is rejected too, however it may be written one day.
        let plain = !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', '\0']);
        if !plain || name.contains("_ORT_MEM_ADDR_") || name.len() > 255 {
            return Err(Finding::ExternalDataOutside(shortened(name)).into());
        }
        let number = |key, text: Option<&str>, otherwise: u64| match text {
            None => Ok(otherwise),
            Some(text) => {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                let number = digits.then(|| text.parse().ok()).flatten();
                number.ok_or_else(|| {
                    let (name, is) = (name.to_owned(), shortened(text));
                    ScanError::from(Finding::ExternalDataNumber { name, key, is })
                })
            }
        };
        let (offset, length) = (number("offset", offset, 0)?, number("length", length, declared)?);
        let end = self.facts.external_data.entry(name.to_owned()).or_default();
        *end = (*end).max(offset.saturating_add(length));
        let files = self.facts.external_data.len() as u64;
        let most = self.limits.external_files_max;
        over("files of external data", files, most, "save the weights in one file")?;
        Ok(length)
    }
}

impl<'a> Tensor<'a> {
    fn read(&mut self, fields: Fields<'a>) -> Result<(), ScanError> {
        for field in fields {
            match field? {
                (1, value) => self.axes(value)?,
                (2, value) => self.data_type = value.number()?,
                (8, value) => self.name = Some(value.piece()?),
                (13, value) => {
                    self.entries.push(entry(value.piece()?)?);
                    let entries = self.entries.len() as u64;
                    over("entries of external data", entries, 16, "save the weights again")?;
                }
                (14, value) => match value.number()? {
                    0 => {}
                    1 => self.external = true,
                    other => return Err(Finding::malformed(format!("data_location {other}, which is none"))),
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// Packed or one by one: both are legal.
    fn axes(&mut self, value: Value<'a>) -> Result<(), ScanError> {
        match value {
            Value::Number(axis) => self.axis(axis),
            Value::Piece(piece) => {
                let mut rest = piece.bytes;
                while !rest.is_empty() {
                    let axis = prost::encoding::decode_varint(&mut rest);
                    self.axis(axis.map_err(|_| Finding::malformed(BROKEN_AXIS))?)?;
                }
                Ok(())
            }
            Value::Fixed(_) => Err(Finding::malformed(BROKEN_AXIS)),
        }
    }

    fn axis(&mut self, axis: u64) -> Result<(), ScanError> {
        // Negative ones appear as numbers above nine quintillion here.
        if axis > i64::MAX as u64 {
            return Err(Finding::malformed("a tensor of weights with a negative axis"));
        }
        self.rank += 1;
        self.elements = self.elements.saturating_mul(axis);
        over("axes of a tensor", self.rank, RANK_MAX, "export the model again")
    }

    /// None: too large to count.
    fn bytes(&self) -> Option<u64> {
        let bits = match self.data_type {
            2 | 3 | 9 | 17..=20 | 24 => 8,
            4 | 5 | 10 | 16 => 16,
            1 | 6 | 12 => 32,
            7 | 11 | 13 | 14 => 64,
            15 => 128,
            21..=23 => 4,
            25 | 26 => 2,
            // Texts have no size of their own, and unknown types count by their content.
            _ => return Some(0),
        };
        self.elements.checked_mul(bits).map(|bits| bits.div_ceil(8))
    }
}

/// A key and its value, each a text that occurs once.
pub(super) fn entry(piece: Piece<'_>) -> Result<(&str, &str), ScanError> {
    let mut found = [None, None];
    for field in piece.fields() {
        let (place, value) = match field? {
            (1, value) => (0, value),
            (2, value) => (1, value),
            _ => continue,
        };
        if found[place].replace(value.piece()?.text()?).is_some() {
            return Err(Finding::malformed("an entry has its key or its value twice"));
        }
    }
    let [key, value] = found;
    Ok((key.unwrap_or_default(), value.unwrap_or_default()))
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}
