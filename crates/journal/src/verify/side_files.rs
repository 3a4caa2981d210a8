//! Verifies side files: the blobs and subjects' keys that records refer to.
//!
//! Blobs must exist unchanged. A key must exist unless an erasure is recorded, and must not exist if one is.
//! Decrypts nothing: the key file states which keys are live without the key-encryption key.

use super::{Finding, FindingKind, Run};
use crate::blobs::{BlobError, Blobs};
use crate::format::Hash;
use crate::keys::{Stored, walk_subjects};
use crate::log::LogError;
use crate::record_facts::RecordFacts;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;

/// Facts about one subject from the records and the key file. About 100 bytes a subject.
#[derive(Debug, Default)]
struct Seen {
    /// The last record with personal data.
    segment: u64,
    seq: u64,
    /// There is one since the last erasure.
    sealed: bool,
    /// Erasures with data to erase.
    erasures: u32,
    erased_unix_ms: i64,
    /// Erased keys in the file.
    erased_keys: u32,
    live_keys: u32,
    oldest_live_unix_ms: i64,
}

#[derive(Debug, Default)]
pub(super) struct SideFiles {
    subjects: HashMap<Hash, Seen>,
    blobs: HashSet<Hash>,
}

impl Run<'_> {
    /// Adds the records of segments that moved to Parquet, from their index.
    pub(super) fn note_indexed(&mut self) {
        let (mut record_facts, log) = (Vec::new(), self.log);
        // Unreadable records are reported with their segments.
        if let Err(error) = log.indexed(&mut |record| record_facts.push(record)) {
            self.verified.add(Finding::of_nothing(FindingKind::Index(error.to_string())));
        }
        record_facts.into_iter().for_each(|record| self.note_facts(record));
    }

    pub(super) fn note_facts(&mut self, record: RecordFacts) {
        for blob in record.blobs {
            self.check_blob(blob, record.segment, record.seq);
        }
        let Some(subject) = record.subject else { return };
        if record.kind == "erased" {
            let seen = self.side_files.subjects.entry(subject).or_default();
            seen.erasures += u32::from(std::mem::take(&mut seen.sealed));
            seen.erased_unix_ms = record.at.unwrap_or(0) / 1_000_000;
        } else if record.personal {
            let seen = self.side_files.subjects.entry(subject).or_default();
            (seen.segment, seen.seq, seen.sealed) = (record.segment, record.seq, true);
        }
    }

    fn check_blob(&mut self, blob: Hash, segment: u64, seq: u64) {
        if !self.side_files.blobs.insert(blob) {
            return;
        }
        self.verified.blobs += 1;
        let what = match Blobs::read_only(self.log.folder()).get(&blob) {
            Ok(Some(_)) => return,
            Ok(None) => FindingKind::BlobMissing(blob),
            Err(BlobError::Changed(_)) => FindingKind::BlobChanged(blob),
            Err(BlobError::Io { cause, .. }) => FindingKind::BlobUnread(blob, cause.kind().to_string()),
        };
        self.verified.add(Finding { seq: Some(seq), ..Finding::of_segment(segment, what) });
    }

    /// Compares the key file with all collected facts.
    pub(super) fn check_subjects(&mut self) -> Result<(), LogError> {
        let folder = self.log.folder();
        let subjects = &mut self.side_files.subjects;
        let walked = walk_subjects(folder, |stored, created_unix_ms, token| {
            let Some(seen) = subjects.get_mut(token) else { return };
            match stored {
                Stored::Erased => seen.erased_keys += 1,
                Stored::Live if seen.live_keys == 0 => {
                    (seen.live_keys, seen.oldest_live_unix_ms) = (1, created_unix_ms);
                }
                Stored::Live => {
                    seen.live_keys += 1;
                    seen.oldest_live_unix_ms = seen.oldest_live_unix_ms.min(created_unix_ms);
                }
                Stored::Check => {}
            }
        });
        self.verified.subjects = self.side_files.subjects.len() as u64;
        let damaged = match walked {
            Ok(damaged) => damaged,
            Err(cause) if cause.kind() == ErrorKind::NotFound => {
                let needed = self.side_files.subjects.values().filter(|seen| seen.sealed).count() as u64;
                if needed > 0 {
                    self.verified.add(Finding::of_nothing(FindingKind::KeysMissing(needed)));
                }
                return Ok(());
            }
            Err(cause) => return Err(LogError::at(&folder.join("subjects"))(cause)),
        };
        if damaged > 0 {
            self.verified.add(Finding::of_nothing(FindingKind::KeysDamaged(damaged)));
        }
        self.compare_keys();
        Ok(())
    }

    fn compare_keys(&mut self) {
        // Erasures may be recorded in segments removed on purpose, or be in progress in a server.
        let all_recorded =
            !self.live && self.log.retired().iter().all(|retired| retired.gone_unix_ns.is_none());
        let mut found: Vec<(u64, u64, FindingKind)> = Vec::new();
        for (token, seen) in &self.side_files.subjects {
            let lost_entry = seen.erased_keys < seen.erasures;
            let old_key = seen.erasures > 0 && seen.oldest_live_unix_ms < seen.erased_unix_ms;
            let what = if seen.live_keys > 0 && (lost_entry || old_key) {
                Some(FindingKind::KeyRestored(*token))
            } else if seen.sealed && seen.live_keys == 0 && seen.erased_keys > seen.erasures {
                all_recorded.then_some(FindingKind::ErasedUnrecorded(*token))
            } else {
                let missing = (seen.sealed && seen.live_keys == 0) || lost_entry;
                missing.then_some(FindingKind::KeyMissing(*token))
            };
            found.extend(what.map(|what| (seen.segment, seen.seq, what)));
        }
        found.sort_unstable_by_key(|(segment, seq, _)| (*segment, *seq));
        for (segment, seq, what) in found {
            self.verified.add(Finding { seq: Some(seq), ..Finding::of_segment(segment, what) });
        }
    }
}
