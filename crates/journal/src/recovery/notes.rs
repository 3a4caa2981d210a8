//! Recovery of checkpoints.
//!
//! Only a partial last note from a crash is cut. Any other damaged note was signed once: it stays in place,
//! is copied to quarantine, and is reported.

use super::Report;
use crate::disk::{Disk, found, write_whole};
use crate::folder::Folder;
use crate::note::{Checkpoint, note_length};
use std::io;
use std::ops::Range;

const FILE: &str = "checkpoints";
const BEGINS: &[u8] = b"\nflyball-journal/";
/// Lines of a note with only the journal's own signature.
const NOTE_LINES: usize = 7;
const DASH: &[u8] = "\u{2014}".as_bytes();

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) last: Option<Checkpoint>,
    /// The offset of the next note.
    pub(crate) bytes: u64,
    /// Damaged pieces without a report yet, by offset.
    broken: Vec<(usize, Vec<u8>)>,
}

impl Notes {
    pub(crate) fn read(disk: &dyn Disk, folder: &Folder) -> io::Result<Notes> {
        let path = folder.file(FILE);
        let Some(mut bytes) = found(disk.read(&path))? else { return Ok(Notes::default()) };
        let (last, broken, end) = pieces(&bytes);
        bytes.truncate(end);
        if bytes.last().is_some_and(|byte| *byte != b'\n') {
            // The next note starts on a new line.
            disk.write_all_at(&disk.open(&path)?, b"\n", bytes.len() as u64)?;
            bytes.push(b'\n');
        }
        let reported = |at: usize| folder.quarantined_notes(at).exists();
        let broken = broken.into_iter().filter(|piece| !reported(piece.start));
        let broken = broken.map(|piece| (piece.start, bytes[piece].to_vec())).collect();
        Ok(Notes { last, bytes: bytes.len() as u64, broken })
    }

    pub(crate) fn report(&self) -> Option<Report> {
        let (at, _) = self.broken.first()?;
        let why =
            format!("the checkpoint file is damaged in {} places, the first at byte {at}", self.broken.len());
        tracing::error!(%why, "checkpoints of the journal are damaged; copies are in quarantine");
        Some(Report::Quarantined { segment: 0, why })
    }

    /// Call it once the report is on disk: quarantined pieces are not reported again.
    pub(crate) fn set_aside(&self, disk: &dyn Disk, folder: &Folder) -> io::Result<()> {
        for (at, piece) in &self.broken {
            let aside = folder.quarantined_notes(*at);
            aside.parent().map_or(Ok(None), flyball_core::private_folder)?;
            write_whole(disk, &aside, piece)?;
        }
        Ok(())
    }
}

/// The last readable note, the damaged pieces, and the end of the file without a partial note.
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

/// The note at the start of a piece, and its length.
fn note(piece: &[u8]) -> Option<(Checkpoint, usize)> {
    let text = std::str::from_utf8(piece).unwrap_or_else(|error| {
        std::str::from_utf8(&piece[..error.valid_up_to()]).expect("it is valid up to there")
    });
    let length = note_length(text)?;
    Checkpoint::parse(&text[..length]).ok().map(|checkpoint| (checkpoint, length))
}

/// Whether this may be a partial note: one with a complete signature is whole, or was.
fn is_half(piece: &[u8]) -> bool {
    let lines = piece.iter().filter(|byte| **byte == b'\n').count();
    let signed = piece.windows(DASH.len()).any(|part| part == DASH);
    lines < NOTE_LINES && !(signed && piece.ends_with(b"\n"))
}
