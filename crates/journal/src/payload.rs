//! Encodes a record as the payload of a frame.
//!
//! The payload is one CBOR map that starts with the kind and the id. Personal data is encrypted here, and a
//! long input becomes a blob. Knows no segment.

use crate::blobs::{BlobError, Blobs};
use crate::counts::InternalKind;
use crate::format::{Hash, PAYLOAD_BYTES_MAX};
use crate::keys::{KeyError, Keys};
use crate::record_codec::{Encoded, Pairs, infallible, write_pairs};
use flyball_core::{DecisionId, JournalRecord, RecordKind, Registered, Served};
use minicbor::Encoder;
use std::sync::Arc;

/// A longer input is stored as a blob under its digest.
pub(crate) const INPUT_BYTES_MAX: usize = 16 << 10;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PayloadError {
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Blobs(#[from] BlobError),
    #[error("a record of {0} bytes exceeds the maximum of {PAYLOAD_BYTES_MAX}; mask or omit long fields")]
    Long(usize),
}

/// The side files: keys and blobs that records refer to.
#[derive(Debug)]
pub(crate) struct SideFiles {
    pub(crate) keys: Arc<Keys>,
    pub(crate) blobs: Blobs,
    sealed: Vec<u8>,
    /// The size of the last blob that could not be stored; zero if all were.
    unput: usize,
}

impl SideFiles {
    pub(crate) fn new(keys: Arc<Keys>, blobs: Blobs) -> SideFiles {
        SideFiles { keys, blobs, sealed: Vec::new(), unput: 0 }
    }

    /// Writes the payload of a record. For `Erased`, the subject's key is deleted before the record exists.
    pub(crate) fn payload(&mut self, record: &JournalRecord, out: &mut Vec<u8>) -> Result<(), PayloadError> {
        if record.kind == RecordKind::Erased {
            self.keys.erase(&record.subject)?;
        }
        let personal = !record.personal.is_empty();
        let subject = personal || !record.subject.is_empty();
        let pairs = u64::from(record.pairs_count)
            + u64::from(!record.input.is_empty())
            + u64::from(subject)
            + u64::from(personal);
        let mut map = begin(out, record.kind.label(), record.id, pairs);
        map.writer_mut().extend_from_slice(&record.pairs);
        if record.input.len() > INPUT_BYTES_MAX {
            let digest = put(&self.blobs, &mut self.unput, &record.input)?;
            let length = record.input.len() as u64;
            infallible(map.str("input_blob").and_then(|map| map.array(2)?.bytes(&digest.0)?.u64(length)));
        } else if !record.input.is_empty() {
            infallible(map.str("input")).writer_mut().extend_from_slice(&record.input);
        }
        if personal {
            self.sealed.clear();
            // The reason of an erasure must outlive its subject's key.
            let erased = record.kind == RecordKind::Erased;
            let subject = if erased { &[] } else { &record.subject[..] };
            let sealed = self.keys.seal(subject, record.id, &record.personal, &mut self.sealed)?;
            let token = if erased { self.keys.token(&record.subject, record.id) } else { sealed };
            infallible(
                map.str("subject").and_then(|map| map.bytes(&token.0)?.str("personal")?.bytes(&self.sealed)),
            );
        } else if subject {
            let token = self.keys.token(&record.subject, record.id);
            infallible(map.str("subject").and_then(|map| map.bytes(&token.0)));
        }
        if out.len() > PAYLOAD_BYTES_MAX {
            return Err(PayloadError::Long(out.len()));
        }
        Ok(())
    }

    /// The record of a serving decision; stores the referenced documents as blobs.
    pub(crate) fn served(&mut self, served: &Served, unix_ns: i64) -> Result<JournalRecord, PayloadError> {
        let deployment = put(&self.blobs, &mut self.unput, &served.deployment)?;
        let runtime = put(&self.blobs, &mut self.unput, &served.runtime)?;
        let digests = [
            ("document", served.document.bytes()),
            ("policy", served.policy.bytes()),
            ("schema", served.schema.bytes()),
            ("deployment", &deployment.0),
            ("runtime", &runtime.0),
        ];
        Ok(new_record(RecordKind::Served, |pairs| {
            pairs.key("at")?.i64(unix_ns)?;
            pairs.text("decision", Some(&served.decision))?;
            digests.into_iter().try_for_each(|(key, digest)| pairs.key(key)?.bytes(digest)?.ok())?;
            pairs.text("base", Some(&served.base))
        }))
    }

    /// On return, keys that a frame refers to survive this process.
    pub(crate) fn flush(&self) -> Result<(), PayloadError> {
        Ok(self.keys.flush()?)
    }

    /// Checks whether the last failure would succeed now: space for keys, and for the last failed blob.
    pub(crate) fn probe(&mut self, subjects: u32) -> Result<(), PayloadError> {
        self.sync()?;
        self.keys.make_room(subjects)?;
        if self.unput > 0 {
            self.blobs.probe(self.unput)?;
        }
        self.unput = 0;
        Ok(())
    }

    /// On return, they survive the machine too.
    pub(crate) fn sync(&self) -> Result<(), PayloadError> {
        self.keys.sync()?;
        Ok(self.blobs.sync()?)
    }
}

/// The record of the registry event that serves.
pub(crate) fn registered(registered: &Registered, unix_ns: i64) -> JournalRecord {
    new_record(RecordKind::Registry, |pairs| {
        pairs.key("at")?.i64(unix_ns)?;
        pairs.key("sequence")?.u64(registered.sequence)?;
        pairs.key("hash")?.bytes(registered.hash.bytes())?;
        pairs.key("generation")?.u64(registered.generation)?;
        pairs.text("environment", Some(&registered.environment))
    })
}

fn new_record(kind: RecordKind, write: impl FnOnce(&mut Pairs<'_>) -> Encoded) -> JournalRecord {
    let mut record = JournalRecord { kind, ..JournalRecord::default() };
    record.pairs_count = write_pairs(&mut record.pairs, write);
    record
}

fn put(blobs: &Blobs, unput: &mut usize, bytes: &[u8]) -> Result<Hash, BlobError> {
    blobs.put(bytes).inspect_err(|_| *unput = bytes.len())
}

/// The payload of a record of the journal itself.
pub(crate) fn own(kind: InternalKind, write: impl FnOnce(&mut Pairs<'_>) -> Encoded) -> Vec<u8> {
    let (mut pairs, mut out) = (Vec::new(), Vec::new());
    let count = write_pairs(&mut pairs, write);
    begin(&mut out, kind.label(), DecisionId(0), count.into()).writer_mut().extend_from_slice(&pairs);
    out
}

fn begin<'a>(out: &'a mut Vec<u8>, kind: &str, id: DecisionId, pairs: u64) -> Encoder<&'a mut Vec<u8>> {
    out.clear();
    let mut map = Encoder::new(out);
    let id = id.0.to_be_bytes();
    infallible(map.map(pairs + 2).and_then(|map| map.str("kind")?.str(kind)?.str("id")?.bytes(&id)));
    map
}
