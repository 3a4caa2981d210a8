//! Checkpoints in the order of what they sign: those of the directory and one from outside.
//!
//! Each note is verified on its own as it is read. Its claims about frames and roots are compared where those
//! are read.

use super::{Finding, FindingKind, NoteOrigin, Verified, VerifyOptions};
use crate::disk::found;
use crate::log::{Log, LogError, notes_path};
use crate::note::{Checkpoint, NOTE_BYTES_MAX, note_length};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Take};
use std::path::Path;

const ORIGIN: &[u8] = b"flyball-journal/";

/// Reads one note after the other, past anything between them.
pub(crate) struct NoteReader {
    file: Option<Take<BufReader<File>>>,
    /// The first line of the next note.
    line: Vec<u8>,
    at: u64,
    number: u64,
}

/// The content at one position of the checkpoint file.
pub(crate) struct NotePiece {
    pub(crate) place: NoteOrigin,
    /// None: not a whole note.
    pub(crate) text: Option<String>,
    /// The offset of data after it that belongs to no note.
    pub(crate) more: Option<u64>,
}

impl NoteReader {
    pub(crate) fn open(path: &Path, bytes: u64) -> io::Result<NoteReader> {
        let file = found(File::open(path))?.map(|file| BufReader::new(file).take(bytes));
        Ok(NoteReader { file, line: Vec::new(), at: 0, number: 0 })
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<NotePiece>> {
        let Some(file) = &mut self.file else { return Ok(None) };
        let mut piece = std::mem::take(&mut self.line);
        while piece.len() <= NOTE_BYTES_MAX {
            self.line.clear();
            if file.by_ref().take(NOTE_BYTES_MAX as u64).read_until(b'\n', &mut self.line)? == 0 {
                break;
            }
            if self.line.starts_with(ORIGIN) && !piece.is_empty() {
                break;
            }
            piece.append(&mut self.line);
        }
        if piece.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let place = NoteOrigin { outside: false, number: self.number, offset: self.at };
        self.at += piece.len() as u64;
        let mut text = String::from_utf8(piece).ok();
        let length = text.as_deref().and_then(note_length);
        let more = text.as_ref().zip(length).filter(|(text, length)| *length < text.len());
        let more = more.map(|(_, length)| place.offset + length as u64);
        match (&mut text, length) {
            (Some(text), Some(length)) => text.truncate(length),
            (text, _) => *text = None,
        }
        Ok(Some(NotePiece { place, text, more }))
    }
}

struct Stream {
    file: Option<NoteReader>,
    next: Option<(NoteOrigin, Checkpoint)>,
    /// What the last one signed.
    reached: (u64, u64),
}

/// The directory's notes and the outside one.
pub(super) struct Streams {
    streams: [Stream; 2],
    keys: Keys,
    /// Segments whose roots a note has proven.
    pub(super) fits: u64,
    failed: Option<io::Error>,
}

/// The keys that must have signed notes.
struct Keys {
    given: Option<[u8; 32]>,
    node: Option<[u8; 16]>,
    own: Option<[u8; 32]>,
    /// The segments from which another key signs.
    named: Vec<(u64, [u8; 32])>,
}

impl Keys {
    fn of(&self, segment: u64) -> Option<[u8; 32]> {
        let named = || self.named.iter().rev().find(|(from, _)| *from <= segment).map(|(_, key)| *key);
        self.given.or_else(named).or(self.own)
    }
}

impl Streams {
    pub(super) fn open(
        log: &Log,
        options: &VerifyOptions,
        verified: &mut Verified,
    ) -> Result<Streams, LogError> {
        let path = notes_path(log.folder());
        let file = NoteReader::open(&path, log.listing.notes_bytes).map_err(LogError::at(&path))?;
        let headers = log
            .listing
            .segments
            .iter()
            .filter_map(|listed| Some((listed.number, listed.header.as_ref().ok()?)));
        let mut named: Vec<(u64, [u8; 32])> = headers.map(|(number, header)| (number, header.key)).collect();
        named.dedup_by_key(|(_, key)| *key);
        let keys = Keys { given: options.key, node: log.node(), own: log.key(), named };
        let stream = |file| Stream { file, next: None, reached: (0, 0) };
        let mut streams =
            Streams { streams: [stream(Some(file)), stream(None)], keys, fits: 0, failed: None };
        if let Some(text) = &options.checkpoint {
            let place = NoteOrigin { outside: true, number: 1, offset: 0 };
            streams.streams[1].next = streams.checked(place, text, verified).map(|note| (place, note));
        }
        Ok(streams)
    }

    /// The next note in signing order whose open segment is before this one.
    pub(super) fn pop_before(
        &mut self,
        segment: u64,
        verified: &mut Verified,
    ) -> Option<(NoteOrigin, Checkpoint)> {
        self.pop(verified, |note| note.open < segment)
    }

    /// The next note that signs at most this many frames of it.
    pub(super) fn pop_up_to(
        &mut self,
        segment: u64,
        frames: u64,
        verified: &mut Verified,
    ) -> Option<(NoteOrigin, Checkpoint)> {
        self.pop(verified, |note| (note.open, note.open_frames) <= (segment, frames))
    }

    fn pop(
        &mut self,
        verified: &mut Verified,
        wanted: impl Fn(&Checkpoint) -> bool,
    ) -> Option<(NoteOrigin, Checkpoint)> {
        self.fill(verified);
        let next = |stream: &Stream| stream.next.as_ref().map(|(_, note)| (note.open, note.open_frames));
        let first = (0..self.streams.len()).filter(|place| next(&self.streams[*place]).is_some());
        let first = first.min_by_key(|place| next(&self.streams[*place]))?;
        self.streams[first].next.take_if(|(_, note)| wanted(note))
    }

    /// Reads on in the file, past damage, which it reports.
    fn fill(&mut self, verified: &mut Verified) {
        while self.streams[0].next.is_none() {
            let noted = match self.streams[0].file.as_mut().map(NoteReader::next) {
                Some(Ok(Some(noted))) => noted,
                Some(Err(error)) => {
                    self.failed = Some(error);
                    return;
                }
                Some(Ok(None)) | None => return,
            };
            let place = noted.place;
            let lost = |offset| Finding::of_notes(Some(offset), place, FindingKind::NoNote);
            let note = match &noted.text {
                Some(text) => self.checked(place, text, verified),
                None => {
                    verified.add(lost(place.offset));
                    None
                }
            };
            if let Some(more) = noted.more {
                verified.add(lost(more));
            }
            let Some(note) = note else { continue };
            let signs = (note.open, note.open_frames);
            if signs < self.streams[0].reached {
                verified.add(Finding::of_note(&note, place, FindingKind::NoteOrder));
                continue;
            }
            self.streams[0].reached = signs;
            self.streams[0].next = Some((place, note));
        }
    }

    /// Verifies a note on its own: form, journal, signature.
    fn checked(&self, place: NoteOrigin, text: &str, verified: &mut Verified) -> Option<Checkpoint> {
        verified.checkpoints += 1;
        let note = match Checkpoint::parse(text) {
            Ok(note) => note,
            Err(error) => {
                let offset = (!place.outside).then_some(place.offset);
                verified.add(Finding::of_notes(offset, place, FindingKind::Note(error)));
                return None;
            }
        };
        let what = if self.keys.node.is_some_and(|node| node != note.node) {
            FindingKind::NoteNode
        } else {
            match self.keys.of(note.open).map(|key| Checkpoint::verify(text, &key)) {
                None => FindingKind::NoteKey,
                Some(Err(error)) => FindingKind::Note(error),
                Some(Ok(note)) => return Some(note),
            }
        };
        verified.add(Finding::of_note(&note, place, what));
        None
    }

    /// The error that stopped reading the file.
    pub(super) fn failed(&mut self) -> Option<io::Error> {
        self.failed.take()
    }
}
