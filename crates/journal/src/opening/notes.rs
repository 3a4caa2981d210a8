//! The checkpoints that a new writer finds. Only the half of a last note that a crash left is cut; whatever else is broken
//! was signed once: it stays where it is, is copied aside, and is told.

use super::Report;
use crate::disk::{Disk, write_whole};
use crate::folder::Folder;
use crate::note::{Checkpoint, note_length};
use std::io;
use std::ops::Range;

const FILE: &str = "checkpoints";
const BEGINS: &[u8] = b"\nflyball-journal/";
/// Lines of a note that only its journal has signed.
const NOTE_LINES: usize = 7;
const DASH: &[u8] = "\u{2014}".as_bytes();

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) last: Option<Checkpoint>,
    /// Where the next one is written.
    pub(crate) bytes: u64,
    /// What is no note and has not been told yet, by its place in the file.
    broken: Vec<(usize, Vec<u8>)>,
}

impl Notes {
    pub(crate) fn read(disk: &dyn Disk, folder: &Folder) -> io::Result<Notes> {
        let path = folder.file(FILE);
        let mut bytes = match disk.read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Notes::default()),
            other => other?,
        };
        let (last, broken, end) = pieces(&bytes);
        bytes.truncate(end);
        if bytes.last().is_some_and(|byte| *byte != b'\n') {
            // Another note begins on a line of its own.
            disk.write_all_at(&disk.open(&path)?, b"\n", bytes.len() as u64)?;
            bytes.push(b'\n');
        }
        let told = |at: usize| folder.quarantined_note(at).exists();
        let broken = broken.into_iter().filter(|piece| !told(piece.start));
        let broken = broken.map(|piece| (piece.start, bytes[piece].to_vec())).collect();
        Ok(Notes { last, bytes: bytes.len() as u64, broken })
    }

    pub(crate) fn report(&self) -> Option<Report> {
        let (at, _) = self.broken.first()?;
        let why = format!(
            "the file of checkpoints is broken in {} places, the first at byte {at}",
            self.broken.len()
        );
        tracing::error!(%why, "checkpoints of the journal are damaged; copies of them are in quarantine");
        Some(Report::Quarantined { segment: 0, why })
    }

    /// Once the report is on the disk: what is aside is not told again.
    pub(crate) fn set_aside(&self, disk: &dyn Disk, folder: &Folder) -> io::Result<()> {
        for (at, piece) in &self.broken {
            let aside = folder.quarantined_note(*at);
            aside.parent().map_or(Ok(None), flyball_core::private_folder)?;
            write_whole(disk, &aside, piece)?;
        }
        Ok(())
    }
}

/// The last note that can be read, what is none, and where the file ends without the half of one.
fn pieces(bytes: &[u8]) -> (Option<Checkpoint>, Vec<Range<usize>>, usize) {
    let (mut last, mut broken, mut at) = (None, Vec::new(), 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let next = rest.windows(BEGINS.len()).position(|part| part == BEGINS).map(|place| place + 1);
        let piece = &rest[..next.unwrap_or(rest.len())];
        if let Some((checkpoint, length)) = note(piece) {
            last = Some(checkpoint);
            at += length;
        } else if next.is_none() && is_half(piece) {
            return (last, broken, at);
        } else {
            broken.push(at..at + piece.len());
            at += piece.len();
        }
    }
    (last, broken, at)
}

/// The note that a piece begins with, and its length.
fn note(piece: &[u8]) -> Option<(Checkpoint, usize)> {
    let text = std::str::from_utf8(piece).unwrap_or_else(|error| {
        std::str::from_utf8(&piece[..error.valid_up_to()]).expect("it is valid up to there")
    });
    let length = note_length(text)?;
    Checkpoint::parse(&text[..length]).ok().map(|checkpoint| (checkpoint, length))
}

/// Whether it may be the beginning of a note: one whose signature has its end is whole, or was.
fn is_half(piece: &[u8]) -> bool {
    let lines = piece.iter().filter(|byte| **byte == b'\n').count();
    let signed = piece.windows(DASH.len()).any(|part| part == DASH);
    lines < NOTE_LINES && !(signed && piece.ends_with(b"\n"))
}
