//! The layout of a journal's directory, and the lock that admits one writer.

use flyball_core::private_folder;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const EXTENSION: &str = "fbj";
/// Readers hold the lock briefly to detect a writer; a writer holds it for its lifetime.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates the directory if needed, for its owner alone.
    pub(crate) fn make(path: &Path) -> io::Result<Folder> {
        let folder = Folder(path.to_owned());
        for path in [path, &folder.segments()] {
            if let Some(warning) = private_folder(path)? {
                tracing::warn!("{warning}");
            }
        }
        Ok(folder)
    }

    /// Takes the lock, which lasts as long as the file is open. None: another process has it.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        let path = self.0.join("lock");
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(file)),
                Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < LOCK_PATIENCE => {
                    thread::sleep(LOCK_PAUSE)
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn segments(&self) -> PathBuf {
        self.0.join("segments")
    }

    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        segment_path(&self.0, number)
    }

    /// The next segment, before it has a number.
    pub(crate) fn next(&self) -> PathBuf {
        self.segments().join("next")
    }

    pub(crate) fn quarantined(&self, number: u64) -> PathBuf {
        self.0.join("quarantine").join(format!("{number:016}.{EXTENSION}"))
    }

    /// A quarantined piece of the checkpoint file, by its offset.
    pub(crate) fn quarantined_notes(&self, at: usize) -> PathBuf {
        self.0.join("quarantine").join(format!("checkpoints-{at:016}"))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The segment numbers in order.
    pub(crate) fn segment_numbers(&self) -> io::Result<Vec<u64>> {
        segment_numbers(&self.segments())
    }
}

pub(crate) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join("segments").join(format!("{number:016}.{EXTENSION}"))
}

/// The segment numbers in a directory, in order. Ignores files with other names.
pub(crate) fn segment_numbers(segments: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(segments)? {
        numbers.extend(entry?.file_name().to_str().and_then(segment_number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn segment_number(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    let digits = stem.len() == 16 && stem.bytes().all(|byte| byte.is_ascii_digit());
    stem.parse().ok().filter(|number| digits && *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_looks_at_the_lock_does_not_keep_a_writer_out() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(parent.path()).unwrap();
        drop(folder.lock().unwrap());
        let looks = File::open(folder.file("lock")).unwrap();
        flock(&looks, FlockOperation::NonBlockingLockShared).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| folder.lock().unwrap().is_some());
            thread::sleep(2 * LOCK_PAUSE);
            drop(looks);
            assert!(writer.join().unwrap());
        });
    }

    #[test]
    fn only_files_with_a_segments_name_are_segments() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(parent.path()).unwrap();
        let strays =
            ["99.fbj", "+000000000000001.fbj", "0000000000000000.fbj", "0000000000000007.fbj.tmp", "next"];
        for name in strays {
            fs::write(folder.segments().join(name), "").unwrap();
        }
        fs::write(folder.segment(3), "").unwrap();
        assert_eq!(folder.segment_numbers().unwrap(), [3]);
    }

    #[test]
    fn a_writer_that_stays_keeps_another_one_out() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(parent.path()).unwrap();
        let held = folder.lock().unwrap();
        assert!(held.is_some() && folder.lock().unwrap().is_none());
    }
}
