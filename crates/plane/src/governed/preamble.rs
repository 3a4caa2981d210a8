//! What is the same in all records of a decision, as CBOR that is written once, when it is loaded: digests, models, and the
//! names of what is sent and found. Knows no row.

use super::entry::{Pairs, never};
use flyball_core::{DecidedBy, Digest};
use flyball_decision::{Field, Program};
use minicbor::Encoder;
use std::convert::Infallible;

type Tried<T> = Result<T, minicbor::encode::Error<Infallible>>;

/// Pairs that are the same in every record.
#[derive(Debug, Default)]
pub(super) struct Fixed {
    pub(super) pairs: Vec<u8>,
    pub(super) count: u32,
}

/// A field or a feature that may be in records: its place among its like, and what stands before its value.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) place: usize,
    pub(super) before: Box<[u8]>,
}

/// Those that are in a record for all to read, and those that are encrypted.
#[derive(Debug, Default)]
pub(super) struct Parted {
    pub(super) plain: Vec<Kept>,
    pub(super) personal: Vec<Kept>,
}

impl Parted {
    fn add(&mut self, place: usize, field: &Field, before: Vec<u8>) {
        let part = if field.pii { &mut self.personal } else { &mut self.plain };
        part.push(Kept { place, before: before.into() });
    }
}

#[derive(Debug)]
pub(crate) struct Preamble {
    pub(super) head: Fixed,
    /// By variant: the models that took part.
    pub(super) models: Vec<Vec<u8>>,
    /// By model: its name.
    pub(super) names: Vec<Vec<u8>>,
    pub(super) masked: Fixed,
    pub(super) fields: Parted,
    pub(super) features: Parted,
}

impl Preamble {
    pub(crate) fn new(name: &str, program: &Program, by: &[DecidedBy], runtime: &Digest) -> Preamble {
        never(Preamble::written(name, program, by, runtime))
    }

    fn written(name: &str, program: &Program, by: &[DecidedBy], runtime: &Digest) -> Tried<Preamble> {
        let (mut fields, mut features) = (Parted::default(), Parted::default());
        for (place, field) in program.fields().iter().enumerate() {
            if !program.record.masked(place) {
                fields.add(place, field, cbor(|out| out.str(&field.name)?.ok())?);
            }
        }
        for (place, feature) in program.features.iter().enumerate() {
            if program.record.masked_feature(place) {
                continue;
            }
            features.add(place, feature.field(), cbor(|out| out.str(&feature.name)?.array(3)?.ok())?);
        }
        let models = program.variants.iter().map(|variant| {
            cbor(|out| {
                out.array(variant.models.len() as u64)?;
                for &model in &variant.models {
                    let by = &by[model];
                    out.array(3)?.str(&by.model)?.str(&by.version)?.bytes(by.digest.bytes())?;
                }
                Ok(())
            })
        });
        let names = program.models.iter().map(|model| cbor(|out| out.str(&model.name)?.ok()));
        Ok(Preamble {
            head: head(name, program, runtime)?,
            models: models.collect::<Tried<_>>()?,
            names: names.collect::<Tried<_>>()?,
            masked: masked(program)?,
            fields,
            features,
        })
    }
}

fn cbor(write: impl FnOnce(&mut Encoder<&mut Vec<u8>>) -> Tried<()>) -> Tried<Vec<u8>> {
    let mut written = Vec::new();
    write(&mut Encoder::new(&mut written))?;
    Ok(written)
}

fn head(name: &str, program: &Program, runtime: &Digest) -> Tried<Fixed> {
    let mut head = Fixed::default();
    let mut pairs = Pairs::new(&mut head.pairs);
    pairs.text("decision", Some(name))?;
    for (key, digest) in [
        ("document", &program.document_digest),
        ("policy", &program.policy_digest),
        ("schema", &program.schema_digest),
        ("runtime", runtime),
    ] {
        pairs.key(key)?.bytes(digest.bytes())?;
    }
    head.count = pairs.count;
    Ok(head)
}

fn masked(program: &Program) -> Tried<Fixed> {
    let (mut masked, masks) = (Fixed::default(), program.record.masks());
    let count = masks.clone().count();
    if count > 0 {
        let mut pairs = Pairs::new(&mut masked.pairs);
        let out = pairs.key("masked")?;
        out.array(count as u64)?;
        for field in masks {
            out.str(&program.fields()[field].name)?;
        }
        masked.count = pairs.count;
    }
    Ok(masked)
}
