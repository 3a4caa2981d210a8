//! The file of subjects' keys: appended entries of 128 bytes.
//!
//! Only an erasure changes an entry in place. The first entry verifies the key-encryption key. Knows neither
//! that key nor what the wrapped keys decrypt.
//!
//! Nothing is written before `flush`, and written entries stay in memory until they are on disk: after a
//! failure of any call, all of them are written again to the same offsets.

use super::KeyError;
use crate::Hash;
use crate::disk::Disk;
use crate::frames::Source;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const WRAPPED_BYTES: usize = 48;
const ENTRY_BYTES: usize = 128;
const VERSION: u8 = 1;
/// Keeps the index of a journal within about 1.5 GB.
const ENTRIES_MAX: u32 = if cfg!(test) { 1000 } else { 50_000_000 };
/// Entries read at a time.
const CHUNK_ENTRIES: usize = 8192;

pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("subjects")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stored {
    Live = 1,
    Erased = 2,
    Check = 3,
}

#[derive(Clone)]
pub(super) struct KeyEntry {
    pub(super) stored: Stored,
    created_unix_ms: i64,
    pub(super) token: Hash,
    pub(super) nonce: [u8; 12],
    pub(super) wrapped: [u8; WRAPPED_BYTES],
}

impl KeyEntry {
    pub(super) fn new(
        stored: Stored,
        token: Hash,
        nonce: [u8; 12],
        wrapped: [u8; WRAPPED_BYTES],
    ) -> KeyEntry {
        KeyEntry { stored, created_unix_ms: jiff::Timestamp::now().as_millisecond(), token, nonce, wrapped }
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0] = self.stored as u8;
        bytes[1] = VERSION;
        bytes[8..16].copy_from_slice(&self.created_unix_ms.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.token.0);
        bytes[48..60].copy_from_slice(&self.nonce);
        bytes[60..108].copy_from_slice(&self.wrapped);
        let checksum = crc32c::crc32c(&bytes[..124]);
        bytes[124..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<KeyEntry> {
        let checksum = u32::from_le_bytes(part(bytes, 124));
        let stored =
            [Stored::Live, Stored::Erased, Stored::Check].into_iter().find(|s| *s as u8 == bytes[0])?;
        (checksum == crc32c::crc32c(&bytes[..124]) && bytes[1] == VERSION).then(|| KeyEntry {
            stored,
            created_unix_ms: i64::from_le_bytes(part(bytes, 8)),
            token: Hash(part(bytes, 16)),
            nonce: part(bytes, 48),
            wrapped: part(bytes, 60),
        })
    }
}

fn part<const N: usize>(bytes: &[u8; ENTRY_BYTES], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the parts are within an entry")
}

/// The state of a subject in the file. An index entry has 20 bytes with its key: there may be millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Unknown,
    Known { live: Option<u32>, erased_once: bool },
}

/// An offset in the file, with a bit for an earlier erasure.
#[derive(Clone, Copy)]
struct Packed(u32);

impl Packed {
    const NONE: u32 = u32::MAX >> 1;

    fn new(live: Option<u32>, erased_once: bool) -> Packed {
        Packed(live.unwrap_or(Packed::NONE) | u32::from(erased_once) << 31)
    }

    fn state(self) -> State {
        let place = self.0 & Packed::NONE;
        State::Known { live: (place != Packed::NONE).then_some(place), erased_once: self.0 >> 31 == 1 }
    }
}

fn offset(place: u32) -> u64 {
    u64::from(place) * ENTRY_BYTES as u64
}

pub(super) struct Subjects {
    pub(super) path: PathBuf,
    pub(super) writes: bool,
    disk: Arc<dyn Disk>,
    file: File,
    /// By the first half of the token. Reading an entry compares the whole token.
    index: HashMap<[u8; 16], Packed>,
    /// Entries that are indexed or wait to be written.
    end: u32,
    /// Entries not yet on disk by offset; `flushed` says whether the system has them.
    waiting: BTreeMap<u32, [u8; ENTRY_BYTES]>,
    flushed: bool,
    /// Entries up to here have allocated blocks.
    room: u32,
    pub(super) damaged: u64,
}

impl Subjects {
    pub(super) fn open(disk: Arc<dyn Disk>, path: &Path, writes: bool) -> Result<Subjects, KeyError> {
        let io_error = |cause| KeyError::Io { path: path.to_owned(), cause };
        let file = if writes { disk.open(path) } else { File::open(path) };
        let file = file.map_err(io_error)?;
        if writes {
            cut_torn_tail(&*disk, &file).map_err(io_error)?;
            // A new file's name must be on disk before its contents count as durable.
            path.parent().map_or(Ok(()), |folder| disk.sync_dir(folder)).map_err(io_error)?;
        }
        Ok(Subjects {
            path: path.to_owned(),
            writes,
            disk,
            file,
            index: HashMap::new(),
            end: 0,
            waiting: BTreeMap::new(),
            flushed: true,
            room: 0,
            damaged: 0,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.end == 0 && self.file.metadata().is_ok_and(|facts| facts.len() == 0)
    }

    pub(super) fn in_place(&self) -> bool {
        crate::writer::folder_check::is_at(&self.file, &self.path)
    }

    pub(super) fn first(&self) -> Result<KeyEntry, KeyError> {
        self.entry(0)?.ok_or_else(|| KeyError::NoSubjects(self.path.clone()))
    }

    /// Reads an entry. None: damaged or absent.
    fn entry(&self, place: u32) -> Result<Option<KeyEntry>, KeyError> {
        let mut bytes = [0; ENTRY_BYTES];
        match self.waiting.get(&place) {
            Some(waiting) => bytes = *waiting,
            None => _ = self.file.read_at(offset(place), &mut bytes).map_err(|cause| self.io(cause))?,
        }
        Ok(KeyEntry::decode(&bytes))
    }

    /// Reads entries added since. Returns whether there were any.
    pub(super) fn refresh(&mut self) -> Result<bool, KeyError> {
        let before = self.end;
        let Subjects { file, index, end, damaged, .. } = self;
        let read = each_entry(file, before, |bytes| {
            match KeyEntry::decode(bytes) {
                Some(entry) => note(index, &entry, *end),
                None => *damaged += 1,
            }
            *end += 1;
        });
        read.map_err(|cause| self.io(cause))?;
        Ok(self.end > before)
    }

    pub(super) fn state(&self, token: &Hash) -> State {
        self.index.get(&half(token)).map_or(State::Unknown, |packed| packed.state())
    }

    /// The subject's current key.
    pub(super) fn live(&mut self, token: &Hash) -> Result<Option<KeyEntry>, KeyError> {
        let State::Known { live: Some(place), .. } = self.state(token) else { return Ok(None) };
        let entry = self.entry(place)?.filter(|entry| entry.token == *token);
        // The writer may erase while a reader is open.
        if let Some(entry) = entry.as_ref().filter(|entry| entry.stored == Stored::Erased) {
            note(&mut self.index, entry, place);
        }
        Ok(entry.filter(|entry| entry.stored == Stored::Live))
    }

    pub(super) fn push(&mut self, entry: KeyEntry) -> Result<(), KeyError> {
        if !self.writes {
            return Err(KeyError::ReadOnly);
        }
        if self.end >= ENTRIES_MAX {
            return Err(KeyError::TooMany(ENTRIES_MAX));
        }
        note(&mut self.index, &entry, self.end);
        self.waiting.insert(self.end, entry.encode());
        (self.end, self.flushed) = (self.end + 1, false);
        Ok(())
    }

    /// Reserves disk space for at least this many more entries.
    ///
    /// Allocates more than needed, so that it does not have to allocate again at once.
    pub(super) fn make_room(&mut self, entries: u32) -> Result<(), KeyError> {
        // A journal without lanes takes no new subjects, and no file system allocates zero bytes.
        if entries == 0 || self.end.saturating_add(entries) <= self.room {
            return Ok(());
        }
        let first = self.waiting.keys().next().map_or(self.end, |place| self.end.min(*place));
        let room = self.end.saturating_add(entries + entries / 8);
        let bytes = offset(room) - offset(first);
        let made = self.disk.allocate(&self.file, offset(first), bytes);
        made.map_err(|cause| self.io(cause))?;
        self.room = room;
        Ok(())
    }

    /// Erases the key. Returns whether there was one.
    pub(super) fn erase(&mut self, token: &Hash) -> Result<bool, KeyError> {
        if !self.writes {
            return Err(KeyError::ReadOnly);
        }
        let State::Known { live: Some(place), .. } = self.state(token) else { return Ok(false) };
        let Some(entry) = self.live(token)? else { return Ok(false) };
        let erased =
            KeyEntry { stored: Stored::Erased, nonce: [0; 12], wrapped: [0; WRAPPED_BYTES], ..entry };
        note(&mut self.index, &erased, place);
        self.waiting.insert(place, erased.encode());
        self.flushed = false;
        Ok(true)
    }

    pub(super) fn flush(&mut self) -> Result<(), KeyError> {
        if self.flushed {
            return Ok(());
        }
        // Adjacent entries share one write.
        let mut run: (u32, Vec<u8>) = (0, Vec::new());
        for (&place, bytes) in &self.waiting {
            let next = run.0 as usize + run.1.len() / ENTRY_BYTES;
            if next != place as usize && !run.1.is_empty() {
                self.write(&run)?;
                run.1.clear();
            }
            if run.1.is_empty() {
                run.0 = place;
            }
            run.1.extend_from_slice(bytes);
        }
        self.write(&run)?;
        self.flushed = true;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), KeyError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.flush()?;
        if let Err(cause) = self.disk.fdatasync(&self.file) {
            // The system may have dropped pages that it could not write, so write all of them again.
            self.flushed = false;
            return Err(self.io(cause));
        }
        self.waiting.clear();
        Ok(())
    }

    fn write(&self, (place, bytes): &(u32, Vec<u8>)) -> Result<(), KeyError> {
        self.disk.write_all_at(&self.file, bytes, offset(*place)).map_err(|cause| self.io(cause))
    }

    fn io(&self, cause: io::Error) -> KeyError {
        KeyError::Io { path: self.path.clone(), cause }
    }
}

/// Updates a subject's state by one of its entries.
fn note(index: &mut HashMap<[u8; 16], Packed>, entry: &KeyEntry, place: u32) {
    let half = half(&entry.token);
    let erased = match index.get(&half).map(|packed| packed.state()) {
        Some(State::Known { erased_once, .. }) => erased_once,
        _ => false,
    };
    let packed = match entry.stored {
        Stored::Live => Packed::new(Some(place), erased),
        Stored::Erased => Packed::new(None, true),
        Stored::Check => return,
    };
    index.insert(half, packed);
}

fn half(token: &Hash) -> [u8; 16] {
    *token.0.first_chunk().expect("a hash is longer")
}

/// Visits each entry of a journal's file in order; returns how many are damaged. Needs no key.
pub(crate) fn walk(folder: &Path, mut visit: impl FnMut(Stored, i64, &Hash)) -> io::Result<u64> {
    let mut damaged = 0;
    each_entry(&File::open(path(folder))?, 0, |bytes| match KeyEntry::decode(bytes) {
        Some(entry) => visit(entry.stored, entry.created_unix_ms, &entry.token),
        // Preallocated space.
        None if bytes.iter().all(|byte| *byte == 0) => {}
        None => damaged += 1,
    })?;
    Ok(damaged)
}

/// Visits the bytes of each whole entry from an index on.
fn each_entry(file: &File, first: u32, mut visit: impl FnMut(&[u8; ENTRY_BYTES])) -> io::Result<()> {
    let (mut chunk, mut at) = (vec![0; CHUNK_ENTRIES * ENTRY_BYTES], offset(first));
    loop {
        let read = file.read_at(at, &mut chunk)?;
        chunk[..read].as_chunks::<ENTRY_BYTES>().0.iter().for_each(&mut visit);
        if read < chunk.len() {
            return Ok(());
        }
        at += read as u64;
    }
}

/// Truncates what a crash left: part of an entry, or preallocated space.
fn cut_torn_tail(disk: &dyn Disk, file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut whole = length / ENTRY_BYTES as u64;
    while let Some(last) = whole.checked_sub(1) {
        let mut bytes = [0; ENTRY_BYTES];
        file.read_at(offset(u32::try_from(last).map_err(io::Error::other)?), &mut bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            break;
        }
        whole = last;
    }
    let end = whole * ENTRY_BYTES as u64;
    if end < length {
        disk.truncate(file, end)?;
        disk.fdatasync(file)?;
    }
    Ok(())
}
