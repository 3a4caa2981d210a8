//! Every call that the writing side makes to the disk, behind one small trait, so that each of them can be made to fail.
//!
//! Knows paths and bytes, and nothing of what they mean. Readers read files by themselves.

#[cfg(test)]
pub(crate) mod tests;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Zeros that are written where a file system cannot allocate.
const ZEROS_BYTES: usize = 64 << 10;

pub(crate) trait Disk: Debug + Send + Sync {
    /// A file of so many zeros, that have their place on the disk already. One that is there is replaced.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<File>;

    /// To read and write; made where there is none.
    fn open(&self, path: &Path) -> io::Result<File>;

    /// Makes room on the disk behind what the file holds; its length stays. Where a file system cannot, nothing is done.
    fn allocate(&self, file: &File, at: u64, bytes: u64) -> io::Result<()>;

    /// May write less than it was given.
    fn write_at(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// What was written is on the disk, and so is the length. An error is final: what was not on the disk before may be
    /// lost, and a second call that succeeds does not mean otherwise.
    fn fdatasync(&self, file: &File) -> io::Result<()>;

    fn truncate(&self, file: &File, bytes: u64) -> io::Result<()>;

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Names in the folder are on the disk.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// A copy that is on the disk.
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

/// A whole small file: it is there with all its bytes after a crash, or it is not, or is what it was before.
pub(crate) fn write_whole(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    let file = disk.create(&beside, 0)?;
    disk.write_all_at(&file, bytes, 0)?;
    disk.fdatasync(&file)?;
    disk.rename(&beside, path)?;
    path.parent().map_or(Ok(()), |folder| disk.sync_dir(folder))
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
