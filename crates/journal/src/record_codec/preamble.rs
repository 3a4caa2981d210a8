//! The part that all records of a decision share, encoded once at load: digests, models, names. Knows no row.

use super::{Encoded, Out, Pairs, infallible, write_pairs};
use flyball_core::{DecidedBy, Digest};
use minicbor::Encoder;

/// The identity of a decision in its records.
pub struct DecisionFacts<'a> {
    pub name: &'a str,
    pub document: Digest,
    pub policy: Digest,
    pub schema: Digest,
    /// The fingerprint of what makes runs differ from machine to machine.
    pub runtime: Digest,
    /// By variant: the models that take part.
    pub variants: &'a [&'a [DecidedBy]],
    /// The models' names, by their indices.
    pub models: Vec<&'a str>,
    /// Names of fields that records omit.
    pub masked: Vec<&'a str>,
    pub fields: Vec<RecordedField<'a>>,
    pub features: Vec<RecordedField<'a>>,
}

/// A field or a feature that may be in records.
pub struct RecordedField<'a> {
    pub index: usize,
    pub name: &'a str,
    /// Whether its values are encrypted.
    pub personal: bool,
}

#[derive(Debug)]
pub struct Preamble {
    pub(super) head: Fixed,
    /// By variant: the models that took part.
    pub(super) models: Vec<Vec<u8>>,
    /// By model: its name.
    pub(super) names: Vec<Vec<u8>>,
    pub(super) masked: Fixed,
    pub(super) fields: Parted,
    pub(super) features: Parted,
}

/// Pairs that are the same in every record.
#[derive(Debug, Default)]
pub(super) struct Fixed {
    pub(super) pairs: Vec<u8>,
    pub(super) count: u32,
}

/// A field or a feature, and what is written before its value.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) index: usize,
    pub(super) before: Box<[u8]>,
}

/// Plain fields, and those that are encrypted.
#[derive(Debug, Default)]
pub(super) struct Parted {
    pub(super) plain: Vec<Recorded>,
    pub(super) personal: Vec<Recorded>,
}

impl Preamble {
    pub fn new(decision: &DecisionFacts<'_>) -> Preamble {
        Preamble {
            head: head(decision),
            models: decision.variants.iter().map(|of| models(of)).collect(),
            names: decision.models.iter().map(|name| cbor(|out| out.str(name)?.ok())).collect(),
            masked: masked(&decision.masked),
            fields: parted(&decision.fields, |field, out| out.str(field.name)?.ok()),
            features: parted(&decision.features, |feature, out| out.str(feature.name)?.array(3)?.ok()),
        }
    }
}

fn parted(
    fields: &[RecordedField<'_>],
    before: impl Fn(&RecordedField<'_>, &mut Out<'_>) -> Encoded,
) -> Parted {
    let mut parted = Parted::default();
    for field in fields {
        let part = if field.personal { &mut parted.personal } else { &mut parted.plain };
        part.push(Recorded { index: field.index, before: cbor(|out| before(field, out)).into() });
    }
    parted
}

fn models(models: &[DecidedBy]) -> Vec<u8> {
    cbor(|out| {
        out.array(models.len() as u64)?;
        models.iter().try_for_each(|by| model(by, out))
    })
}

pub(super) fn model(by: &DecidedBy, out: &mut Out<'_>) -> Encoded {
    out.array(3)?.str(&by.model)?.str(&by.version)?.bytes(by.digest.bytes())?.ok()
}

fn cbor(write: impl FnOnce(&mut Out<'_>) -> Encoded) -> Vec<u8> {
    let mut written = Vec::new();
    infallible(write(&mut Encoder::new(&mut written)));
    written
}

fn head(decision: &DecisionFacts<'_>) -> Fixed {
    let DecisionFacts { document, policy, schema, runtime, .. } = decision;
    let digests = [("document", document), ("policy", policy), ("schema", schema), ("runtime", runtime)];
    fixed(|pairs| {
        pairs.text("decision", Some(decision.name))?;
        digests.into_iter().try_for_each(|(key, digest)| pairs.key(key)?.bytes(digest.bytes())?.ok())
    })
}

fn masked(names: &[&str]) -> Fixed {
    fixed(|pairs| {
        if names.is_empty() {
            return Ok(());
        }
        pairs.key("masked")?.encode(names)?.ok()
    })
}

fn fixed(write: impl FnOnce(&mut Pairs<'_>) -> Encoded) -> Fixed {
    let mut pairs = Vec::new();
    let count = write_pairs(&mut pairs, write);
    Fixed { pairs, count }
}
