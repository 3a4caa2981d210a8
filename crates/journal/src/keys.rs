//! Encryption of personal data under one key for each subject.
//!
//! The subjects' keys are encrypted under a key that is stored elsewhere. Deleting a subject's key erases
//! everything recorded of that subject, and the hash chain stays valid. Knows keys, tokens and ciphertexts;
//! not records nor which data is personal.

mod kek_source;
mod seal;
mod subjects;

pub use kek_source::KekSource;
pub(crate) use kek_source::mode_refused;
pub use seal::Unsealed;
pub(crate) use subjects::{Stored, walk as walk_subjects};

use crate::Hash;
use crate::disk::{Disk, RealDisk};
use crate::folder::segment_numbers;
use flyball_core::DecisionId;
use kek_source::Kek;
use quick_cache::sync::Cache;
use seal::{Dek, Secrets};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use subjects::{State, Subjects};

/// Cached keys of the most frequent subjects; others are read from the file.
const DEKS_KEPT: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("'{0}' is not a source of a key; write file:PATH, env:NAME or command:PROGRAM ARGUMENT…")]
    Place(String),
    #[error("cannot get the key-encryption key from {place}: {why}")]
    NoKek { place: String, why: String },
    #[error(
        "{} was written under another key-encryption key than the one from {place}; give the original key",
        path.display()
    )]
    OtherKek { path: PathBuf, place: String },
    #[error("{}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error("{} is not a file of subjects' keys; restore it from a copy", .0.display())]
    NoSubjects(PathBuf),
    #[error("{} is missing or empty, but the journal has records that need it; restore it from a copy", .0.display())]
    LostSubjects(PathBuf),
    #[error("the file of subjects has no key for {0}; restore it from a copy")]
    NoKey(Hash),
    #[error("the record's personal data does not decrypt with its subject's key: it was changed")]
    Changed,
    #[error("the journal has {0} subjects' keys, which is the maximum; start a new journal")]
    TooMany(u32),
    #[error("the system provides no random numbers")]
    NoRandom,
    #[error("the keys are open for reading only")]
    ReadOnly,
}

/// The subjects' keys of one journal. Usable from any thread.
pub struct Keys {
    secrets: Secrets,
    cache: Cache<Hash, Dek>,
    subjects: Mutex<Subjects>,
}

impl Keys {
    #[cfg(test)]
    pub(crate) fn open(folder: &Path, place: &KekSource) -> Result<Keys, KeyError> {
        Keys::open_on(Arc::new(RealDisk), folder, place)
    }

    /// Opens the keys for the journal's one writer.
    ///
    /// Generates the directory's own key-encryption key if that is the source and none exists yet.
    pub(crate) fn open_on(disk: Arc<dyn Disk>, folder: &Path, place: &KekSource) -> Result<Keys, KeyError> {
        let path = subjects::path(folder);
        let new = path.metadata().map_or(true, |facts| facts.len() == 0);
        if new && log_begun(folder) {
            return Err(KeyError::LostSubjects(path));
        }
        // A new key could not open the existing data.
        let kek = place.read(new.then_some(folder))?;
        let mut subjects = Subjects::open(disk, &path, true)?;
        let secrets = Secrets::of(&kek);
        if subjects.is_empty() {
            subjects.push(secrets.check()?)?;
            subjects.sync()?;
        }
        Keys::with(secrets, subjects, place)
    }

    /// Opens the keys for reading, also next to a writer.
    pub fn read_only(folder: &Path, place: &KekSource) -> Result<Keys, KeyError> {
        let kek: Kek = place.read(None)?;
        let subjects = Subjects::open(Arc::new(RealDisk), &subjects::path(folder), false)?;
        Keys::with(Secrets::of(&kek), subjects, place)
    }

    fn with(secrets: Secrets, mut subjects: Subjects, place: &KekSource) -> Result<Keys, KeyError> {
        if !secrets.fits(&subjects.first()?) {
            return Err(KeyError::OtherKek { path: subjects.path.clone(), place: place.to_string() });
        }
        if subjects.writes {
            subjects.refresh()?;
        }
        Ok(Keys { secrets, cache: Cache::new(DEKS_KEPT), subjects: Mutex::new(subjects) })
    }

    /// The token by which a record names its subject. Without a subject, the record's id is one.
    pub fn token(&self, subject: &[u8], id: DecisionId) -> Hash {
        match subject {
            [] => self.secrets.token(id.to_string().as_bytes()),
            subject => self.secrets.token(subject),
        }
    }

    /// Encrypts and appends the ciphertext. Call it once for an id: the id is the nonce.
    ///
    /// The key may be new: call `flush` before writing the record, and `sync` before it counts as durable.
    pub fn seal(
        &self,
        subject: &[u8],
        id: DecisionId,
        personal: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Hash, KeyError> {
        let token = self.token(subject, id);
        self.dek(&token)?.seal(&token, id, personal, out);
        Ok(token)
    }

    fn dek(&self, token: &Hash) -> Result<Dek, KeyError> {
        if let Some(dek) = self.cache.get(token) {
            return Ok(dek);
        }
        let mut subjects = self.subjects();
        let live = subjects.live(token)?.and_then(|entry| self.secrets.unwrap(&entry));
        let dek = match live {
            Some(dek) => dek,
            None => {
                let (dek, entry) = self.secrets.new_key(token)?;
                subjects.push(entry)?;
                dek
            }
        };
        self.cache.insert(*token, dek.clone());
        Ok(dek)
    }

    /// Decrypts sealed data, unless its key was erased.
    pub fn open_personal(&self, token: &Hash, id: DecisionId, sealed: &[u8]) -> Result<Unsealed, KeyError> {
        let mut subjects = self.subjects();
        for again in [false, true] {
            if again && !subjects.refresh()? {
                break;
            }
            let dek = subjects.live(token)?.and_then(|entry| self.secrets.unwrap(&entry));
            if let Some(plain) = dek.and_then(|dek| dek.open(token, id, sealed)) {
                return Ok(Unsealed::Plain(plain));
            }
        }
        match subjects.state(token) {
            State::Unknown => Err(KeyError::NoKey(*token)),
            // The subject may have returned after the erasure, under a new key.
            State::Known { erased_once: true, .. } => Ok(Unsealed::Erased),
            State::Known { erased_once: false, .. } => Err(KeyError::Changed),
        }
    }

    /// Deletes the subject's key permanently and returns how many there were: zero or one.
    ///
    /// After an error the key is no longer used, and `sync` tries to delete it again.
    pub fn erase(&self, subject: &[u8]) -> Result<usize, KeyError> {
        let token = self.secrets.token(subject);
        let mut subjects = self.subjects();
        let erased = subjects.erase(&token)?;
        self.cache.remove(&token);
        subjects.sync()?;
        Ok(usize::from(erased))
    }

    /// Whether the subject has a usable key.
    pub fn has(&self, subject: &[u8]) -> Result<bool, KeyError> {
        Ok(self.subjects().live(&self.secrets.token(subject))?.is_some())
    }

    /// Whether the open key file is still the one at its path.
    pub(crate) fn in_place(&self) -> bool {
        self.subjects().in_place()
    }

    /// Writes new keys to the system: they survive this process, but not the machine.
    pub fn flush(&self) -> Result<(), KeyError> {
        self.subjects().flush()
    }

    /// Brings all keys to disk. After an error they stay pending, and the next call writes all of them again.
    pub fn sync(&self) -> Result<(), KeyError> {
        self.subjects().sync()
    }

    /// Reserves disk space for this many new subjects' keys.
    pub(crate) fn make_room(&self, subjects: u32) -> Result<(), KeyError> {
        self.subjects().make_room(subjects)
    }

    /// Entries inside the file that can no longer be read.
    pub fn damaged(&self) -> u64 {
        self.subjects().damaged
    }

    fn subjects(&self) -> MutexGuard<'_, Subjects> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether any part of a log exists. The subjects' file is on disk before the first record.
fn log_begun(folder: &Path) -> bool {
    let noted = folder.join("checkpoints").metadata().is_ok_and(|facts| facts.len() > 0);
    noted || segment_numbers(&folder.join("segments")).is_ok_and(|numbers| !numbers.is_empty())
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
