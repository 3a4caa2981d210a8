//! Proof that a record is in the log.
//!
//! It has the record's frame, the path to its segment's root, and the path from there to the root that a
//! checkpoint signs. The proof and the key suffice to verify it. A record of the open segment has a path to
//! the segment's current root, which is not signed yet.

use crate::format::{Frame, Hash};
use crate::log::{Log, LogError, StoredFrame, notes_path};
use crate::merkle::{PathBuilder, climb, leaf_of_segment};
use crate::note::{Checkpoint, NoteError};
use crate::verify::{NoteReader, noted_root};
use serde_json::{Value, json};
use std::fs::File;
use std::ops::ControlFlow;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    pub record: StoredFrame,
    /// The path from the frame's leaf, which follows those of the header and the earlier frames.
    pub path: Vec<Hash>,
    /// Leaves of the segment's tree: the header and each frame.
    pub leaves: u64,
    pub root: Hash,
    /// None: its segment is not sealed, or no checkpoint covers it yet.
    pub signed: Option<Signed>,
}

/// The path from a segment's root to a checkpoint's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    pub path: Vec<Hash>,
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    #[error("the record's path does not lead to its segment's root")]
    Root,
    #[error("the segment's path does not lead to the checkpoint's root")]
    Checkpoint,
    #[error("the checkpoint is invalid: {0}")]
    Note(#[from] NoteError),
}

impl Log {
    pub fn prove(&self, seq: u64) -> Result<Proof, LogError> {
        let place = self.listing.first_with(seq);
        let listed = self.listing.segments.get(place).ok_or(LogError::NoRecord(seq))?;
        let header = listed.header()?;
        let index = seq.checked_sub(header.first_seq).ok_or(LogError::NoRecord(seq))?;
        let mut tree = PathBuilder::new(index + 1);
        tree.push(&header.leaf());
        let (mut record, mut leaves) = (None, 1);
        self.read_segment(place, header.first_seq, false, &mut |placed| {
            tree.push(&placed.leaf);
            leaves += 1;
            if placed.frame.seq == seq {
                record = Some(StoredFrame::from(placed));
            }
            ControlFlow::Continue(())
        })?;
        let root = tree.root();
        let (Some(record), Some(path)) = (record, tree.finish()) else { return Err(LogError::NoRecord(seq)) };
        let sealed = self.listing.next(place).is_some();
        let signed = if sealed { self.sign(record.segment)? } else { None };
        Ok(Proof { record, path, leaves, root, signed })
    }

    /// The last checkpoint over this segment, with the path. None: there is none, or a root is unknown.
    fn sign(&self, segment: u64) -> Result<Option<Signed>, LogError> {
        let Some((note, checkpoint)) = self.last_note()?.filter(|(_, note)| note.sealed >= segment) else {
            return Ok(None);
        };
        let noted = File::open(self.folder().join("roots")).ok();
        let mut tree = PathBuilder::new(segment - 1);
        for number in 1..=checkpoint.sealed {
            let stated = self.listing.end_of(number).map(|(_, root, _)| root);
            let root = stated.or_else(|| noted_root(noted.as_ref()?, number));
            let Some(root) = root else { return Ok(None) };
            tree.push(&leaf_of_segment(&root));
        }
        Ok(tree.finish().map(|path| Signed { path, note }))
    }

    /// The newest whole checkpoint of the directory.
    pub fn last_note(&self) -> Result<Option<(String, Checkpoint)>, LogError> {
        let mut last = None;
        self.each_note(|text| {
            if let Ok(checkpoint) = Checkpoint::parse(&text) {
                last = Some((text, checkpoint));
            }
        })?;
        Ok(last)
    }

    /// All whole notes of the directory, oldest first.
    pub fn each_note(&self, mut visit: impl FnMut(String)) -> Result<(), LogError> {
        let path = notes_path(self.folder());
        let mut file = NoteReader::open(&path, self.listing.notes_bytes).map_err(LogError::at(&path))?;
        while let Some(noted) = file.next().map_err(LogError::at(&path))? {
            noted.text.into_iter().for_each(&mut visit);
        }
        Ok(())
    }
}

impl Proof {
    /// Returns every failed check. Without a key, the signature is not verified.
    pub fn verify(&self, key: Option<&[u8; 32]>) -> Vec<ProofError> {
        let mut errors = Vec::new();
        let StoredFrame { seq, prev, payload, index, segment, .. } = &self.record;
        let leaf = Frame { seq: *seq, prev: *prev, payload }.leaf();
        let place = index.checked_add(1);
        if place.and_then(|place| climb(&leaf, place, self.leaves, &self.path)) != Some(self.root) {
            errors.push(ProofError::Root);
        }
        let Some(Signed { path, note }) = &self.signed else { return errors };
        let checked = key.map_or_else(|| Checkpoint::parse(note), |key| Checkpoint::verify(note, key));
        match checked {
            Err(error) => errors.push(error.into()),
            Ok(checkpoint) => {
                let place = segment.checked_sub(1);
                let leaf = leaf_of_segment(&self.root);
                let reached = place.and_then(|place| climb(&leaf, place, checkpoint.sealed, path));
                if reached != Some(checkpoint.root) {
                    errors.push(ProofError::Checkpoint);
                }
            }
        }
        errors
    }

    pub fn to_json(&self, key: Option<&[u8; 32]>) -> Value {
        let StoredFrame { segment, index, seq, prev, leaf, .. } = &self.record;
        json!({
            "seq": seq,
            "segment": segment,
            "index": index,
            "prev": prev,
            "leaf": leaf,
            "path": self.path,
            "leaves": self.leaves,
            "root": self.root,
            "checkpoint_path": self.signed.as_ref().map(|signed| &signed.path),
            "checkpoint": self.signed.as_ref().map(|signed| &signed.note),
            "findings": self.verify(key).iter().map(ProofError::to_string).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::StartReason;
    use crate::log::Sample;

    fn sample() -> Sample {
        let mut sample = Sample::new();
        for segment in 0..5u8 {
            for frame in 0..7u8 {
                sample.push(&[segment, frame]);
            }
            sample.begin(StartReason::Rotated, 0);
            sample.checkpoint();
        }
        sample.push(b"open");
        sample
    }

    #[test]
    fn every_record_of_a_sealed_segment_is_proven_by_the_last_checkpoint() {
        let sample = sample();
        let log = sample.log();
        for seq in 1..=35 {
            let proof = log.prove(seq).unwrap();
            assert_eq!(proof.record.payload, [(seq as u8 - 1) / 7, (seq as u8 - 1) % 7]);
            assert!(proof.signed.is_some());
            assert_eq!(proof.verify(Some(&sample.public())), []);
        }
    }

    #[test]
    fn a_record_that_is_not_sealed_yet_has_a_way_to_its_segments_root_alone() {
        let sample = sample();
        let log = sample.log();
        let proof = log.prove(36).unwrap();
        assert_eq!((proof.signed.as_ref(), proof.leaves, proof.verify(None)), (None, 2, vec![]));
        assert!(matches!(log.prove(37), Err(LogError::NoRecord(37))));
        assert!(matches!(log.prove(0), Err(LogError::NoRecord(0))));
    }

    #[test]
    fn a_proof_that_was_changed_does_not_hold() {
        let sample = sample();
        let proof = sample.log().prove(10).unwrap();
        let key = sample.public();
        let errors = |change: &dyn Fn(&mut Proof)| {
            let mut changed = proof.clone();
            change(&mut changed);
            changed.verify(Some(&key))
        };
        assert_eq!(errors(&|proof| proof.record.payload[0] ^= 1), [ProofError::Root]);
        assert_eq!(errors(&|proof| proof.record.seq += 1), [ProofError::Root]);
        assert_eq!(errors(&|proof| proof.root.0[0] ^= 1), [ProofError::Root, ProofError::Checkpoint]);
        assert_eq!(errors(&|proof| proof.record.segment = 3), [ProofError::Checkpoint]);
        assert_eq!(proof.verify(Some(&[1; 32])), [ProofError::Note(NoteError::OtherKey(Hash([1; 32])))]);
    }
}
