//! Detects that the directory or open files were deleted, moved or replaced.
//!
//! Data written after that is lost, so no response may depend on it.

use super::Writer;
use flyball_core::Unavailable;
use flyball_core::nanos;
use rustix::fs::{fstat, stat};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// How often to check between commits: a change is detected within a second, including the writer's sleep.
const EVERY: Duration = Duration::from_millis(250);

impl Writer {
    /// Checks periodically; commits check on their own.
    pub(super) fn check_folder(&mut self) {
        let now = self.shared.now_ns();
        if now.saturating_sub(self.fault.looked_ns) >= nanos(EVERY) {
            self.fault.looked_ns = now;
            if self.fault.given_up != Some(Unavailable::Gone) && !self.in_place() {
                self.leave();
            }
        }
    }

    pub(super) fn in_place(&self) -> bool {
        is_at(&self.lock, &self.folder.file("lock"))
            && is_at(&self.segment.file, &self.folder.segment(self.segment.header.segment))
            && self.side_files.keys.in_place()
    }

    /// Stops writing until all files are back: another process may have started a journal there.
    pub(super) fn leave(&mut self) {
        tracing::error!(
            folder = %self.folder.path().display(),
            "the journal's folder was deleted, moved or replaced; move it back, or restart the server to begin a new journal"
        );
        self.give_up(Unavailable::Gone);
    }
}

/// Whether a path names the open file.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    match (fstat(file), stat(path)) {
        (Ok(open), Ok(named)) => (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino),
        _ => false,
    }
}
