//! Every disk call of the writing side, behind a trait that tests can make fail.
//!
//! Knows paths and bytes, not their meaning. Readers read files directly.

#[cfg(test)]
pub(crate) mod tests;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The chunk of zeros to write if a file system cannot preallocate.
const ZEROS_BYTES: usize = 64 << 10;

pub(crate) trait Disk: Debug + Send + Sync {
    /// Creates a file of this many zeros with its blocks allocated. Replaces an existing file.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<File>;

    /// Opens for reading and writing; creates the file if needed.
    fn open(&self, path: &Path) -> io::Result<File>;

    /// Allocates blocks after the end of the file and keeps its length. Does nothing on file systems that
    /// cannot.
    fn allocate(&self, file: &File, at: u64, bytes: u64) -> io::Result<()>;

    /// May write less than `bytes`.
    fn write_at(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Brings data and length to disk.
    ///
    /// An error is final: unsynced data may be lost, and a later successful call does not prove otherwise.
    fn fdatasync(&self, file: &File) -> io::Result<()>;

    fn truncate(&self, file: &File, bytes: u64) -> io::Result<()>;

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Fsyncs the names in a directory.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Copies a file and fsyncs the copy.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn write_all_at(&self, file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(file, bytes, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    at += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Writes a new file and brings its contents, not its name, to disk.
pub(crate) fn write_new(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = disk.create(path, 0)?;
    disk.write_all_at(&file, bytes, 0)?;
    disk.fdatasync(&file)
}

/// Writes a small file atomically: after a crash it is old, absent or complete.
pub(crate) fn write_whole(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("tmp");
    write_new(disk, &unfinished, bytes)?;
    disk.rename(&unfinished, path)?;
    path.parent().map_or(Ok(()), |folder| disk.sync_dir(folder))
}

/// None: the file does not exist.
pub(crate) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path, bytes: u64) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        if bytes > 0 {
            match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(&file, bytes)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(file)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
    }

    fn allocate(&self, file: &File, at: u64, bytes: u64) -> io::Result<()> {
        match fallocate(file, FallocateFlags::KEEP_SIZE, at, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn write_at(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(file, bytes, at)
    }

    fn fdatasync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn truncate(&self, file: &File, bytes: u64) -> io::Result<()> {
        file.set_len(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::copy(from, to)?;
        File::open(to)?.sync_all()
    }
}

impl RealDisk {
    fn write_zeros(self, file: &File, bytes: u64) -> io::Result<()> {
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = 0;
        while at < bytes {
            let piece = (bytes - at).min(ZEROS_BYTES as u64);
            self.write_all_at(file, &zeros[..piece as usize], at)?;
            at += piece;
        }
        Ok(())
    }
}
