//! Blob files for long or repeated data, next to the log.
//!
//! Each is named by the SHA-256 of its contents, written whole or not at all, and never changed.

use crate::Hash;
use crate::disk::{Disk, RealDisk, found, write_new};
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// More than any accepted body or document.
pub const BLOB_BYTES_MAX: usize = 256 << 20;
const UNFINISHED: &str = "unfinished";

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("{}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error("{} does not match the digest in its name: it was changed", .0.display())]
    Changed(PathBuf),
}

/// One thread writes; any thread may read.
#[derive(Debug)]
pub struct Blobs {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// Names may not be on disk yet.
    unsynced: AtomicBool,
}

impl Blobs {
    #[cfg(test)]
    fn open(journal: &Path) -> Result<Blobs, BlobError> {
        Blobs::open_on(Arc::new(RealDisk), journal)
    }

    /// Opens the blobs for the journal's one writer; creates the directory.
    pub(crate) fn open_on(disk: Arc<dyn Disk>, journal: &Path) -> Result<Blobs, BlobError> {
        let blobs = Blobs { disk, ..Blobs::read_only(journal) };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&blobs.folder);
        made.map_err(|cause| BlobError::Io { path: blobs.folder.clone(), cause })?;
        Ok(blobs)
    }

    pub fn read_only(journal: &Path) -> Blobs {
        Blobs { disk: Arc::new(RealDisk), folder: journal.join("blobs"), unsynced: AtomicBool::new(true) }
    }

    fn path(&self, digest: &Hash) -> PathBuf {
        self.folder.join(format!("sha256-{digest}"))
    }

    /// Stores a blob. Its contents are on disk on return, its name after `sync`.
    pub fn put(&self, bytes: &[u8]) -> Result<Hash, BlobError> {
        let name = Hash::of(bytes);
        let path = self.path(&name);
        if touch_if_equal(&path, bytes) {
            return Ok(name);
        }
        let unfinished = self.folder.join(UNFINISHED);
        let written = write_new(&*self.disk, &unfinished, bytes);
        let placed = written.and_then(|()| self.disk.rename(&unfinished, &path));
        placed.map_err(|cause| BlobError::Io { path, cause })?;
        self.unsynced.store(true, Ordering::Relaxed);
        Ok(name)
    }

    /// Fsyncs the names. Required before a record that references a blob counts as durable.
    pub fn sync(&self) -> Result<(), BlobError> {
        if self.unsynced.load(Ordering::Relaxed) {
            let synced = self.disk.sync_dir(&self.folder);
            synced.map_err(|cause| BlobError::Io { path: self.folder.clone(), cause })?;
            self.unsynced.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Checks that a blob of this size could be stored now.
    pub(crate) fn probe(&self, bytes: usize) -> Result<(), BlobError> {
        let unfinished = self.folder.join(UNFINISHED);
        let written = write_new(&*self.disk, &unfinished, &vec![1; bytes]);
        let removed = written.and_then(|()| self.disk.remove(&unfinished));
        removed.map_err(|cause| BlobError::Io { path: unfinished, cause })
    }

    /// Returns the blob, or none if it does not exist.
    pub fn get(&self, digest: &Hash) -> Result<Option<Vec<u8>>, BlobError> {
        let path = self.path(digest);
        let read = |file: File| {
            let mut bytes = Vec::new();
            file.take(BLOB_BYTES_MAX as u64).read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = found(File::open(&path)).and_then(|file| file.map(read).transpose());
        let bytes = bytes.map_err(|cause| BlobError::Io { path: path.clone(), cause })?;
        let Some(bytes) = bytes else { return Ok(None) };
        if Hash::of(&bytes) == *digest { Ok(Some(bytes)) } else { Err(BlobError::Changed(path)) }
    }
}

/// Whether the file has exactly these contents, and will keep them.
///
/// Retention moves aside files that were not touched recently and checks the time again before it removes
/// them. A file that was touched while in its place is therefore safe.
fn touch_if_equal(path: &Path, bytes: &[u8]) -> bool {
    let same = || -> io::Result<bool> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() != bytes.len() as u64 {
            return Ok(false);
        }
        let mut held = Vec::with_capacity(bytes.len());
        file.by_ref().take(bytes.len() as u64).read_to_end(&mut held)?;
        file.set_modified(SystemTime::now())?;
        Ok(held == bytes && path.try_exists()?)
    };
    same().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_found_by_its_digest_once() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let name = blobs.put(b"long").unwrap();
        assert_eq!(blobs.put(b"long").unwrap(), name);
        blobs.sync().unwrap();
        assert_eq!(Blobs::read_only(folder.path()).get(&name).unwrap().as_deref(), Some(&b"long"[..]));
        assert_eq!(blobs.get(&Hash::default()).unwrap(), None);
        assert_eq!(std::fs::read_dir(folder.path().join("blobs")).unwrap().count(), 1);
    }

    #[test]
    fn a_blob_that_was_changed_is_not_given_out() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let name = blobs.put(b"long").unwrap();
        std::fs::write(blobs.path(&name), b"gone").unwrap();
        assert!(matches!(blobs.get(&name), Err(BlobError::Changed(_))));
    }

    #[test]
    fn a_blob_that_is_put_again_is_touched_for_retention_and_mended_where_it_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        let name = blobs.put(b"long").unwrap();
        let file = File::open(blobs.path(&name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        blobs.put(b"long").unwrap();
        assert_ne!(file.metadata().unwrap().modified().unwrap(), SystemTime::UNIX_EPOCH);
        std::fs::write(blobs.path(&name), b"gone").unwrap();
        blobs.put(b"long").unwrap();
        assert_eq!(blobs.get(&name).unwrap().as_deref(), Some(&b"long"[..]));
    }

    #[test]
    fn what_a_crash_left_unfinished_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path()).unwrap();
        std::fs::write(blobs.folder.join(UNFINISHED), b"half of something longer").unwrap();
        let name = blobs.put(b"long").unwrap();
        assert_eq!(blobs.get(&name).unwrap().as_deref(), Some(&b"long"[..]));
    }
}
