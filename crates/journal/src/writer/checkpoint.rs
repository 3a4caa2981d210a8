//! Signed checkpoints over the durable log, appended to a file.
//!
//! Written when a segment is sealed, at close, and periodically, so that silence differs from removal.

use super::Writer;
use crate::disk::Disk;
use crate::folder::Folder;
use crate::note::Checkpoint;
use crate::settings::JournalSettings;
use flyball_core::nanos;
use std::fs::File;
use std::io;

#[derive(Debug)]
pub(super) struct Checkpoints {
    file: File,
    bytes: u64,
    every_ns: u64,
    last_ns: u64,
    pub(super) due: bool,
}

impl Checkpoints {
    /// Opens the file after its last whole note.
    pub(super) fn open(
        disk: &dyn Disk,
        folder: &Folder,
        bytes: u64,
        settings: &JournalSettings,
    ) -> io::Result<Checkpoints> {
        let file = disk.open(&folder.file("checkpoints"))?;
        disk.truncate(&file, bytes)?;
        let every_ns = nanos(settings.checkpoint_every);
        Ok(Checkpoints { file, bytes, every_ns, last_ns: 0, due: true })
    }
}

impl Writer {
    pub(super) fn write_due_checkpoint(&mut self, closing: bool) {
        let now = self.shared.now_ns();
        let Checkpoints { due, last_ns, every_ns, .. } = self.checkpoints;
        if !due && !closing && now.saturating_sub(last_ns) < every_ns {
            return;
        }
        // A failed checkpoint is not retried before the next is due: no caller waits for it.
        (self.checkpoints.due, self.checkpoints.last_ns) = (false, now);
        if let Err(error) = self.write_checkpoint() {
            tracing::error!(%error, "cannot write a checkpoint of the journal");
        }
    }

    /// Writes a note and returns it once it is on disk.
    pub(super) fn write_checkpoint(&mut self) -> io::Result<String> {
        let checkpoint = Checkpoint {
            node: self.node.id,
            sealed: self.sealed.count(),
            root: self.sealed.root(),
            open: self.segment.header.segment,
            open_frames: self.segment.durable_frames(),
            open_last: self.segment.durable.last,
            unix_ms: self.shared.wall.now_ns() / 1_000_000,
        };
        let note = checkpoint.sign(&self.node.key);
        let Checkpoints { file, bytes, .. } = &mut self.checkpoints;
        self.disk.fdatasync(&self.roots)?;
        self.disk.write_all_at(file, note.as_bytes(), *bytes)?;
        self.disk.fdatasync(file)?;
        *bytes += note.len() as u64;
        Ok(note)
    }
}
