//! Shared memory for this crate's tests, removed when they end.

use rustix::fs::Mode;
use rustix::shm;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct SharedMemory {
    key: String,
    file: File,
}

impl SharedMemory {
    pub(crate) fn holding(bytes: &[u8]) -> SharedMemory {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let key = format!("/flyball-wire-{}-{number}", std::process::id());
        let flags = shm::OFlags::CREATE | shm::OFlags::EXCL | shm::OFlags::RDWR;
        let file = File::from(shm::open(&key, flags, Mode::RUSR | Mode::WUSR).expect("shared memory"));
        file.write_all_at(bytes, 0).expect("written");
        SharedMemory { key, file }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/shm{}", self.key))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.file.metadata().expect("is there").len() as usize];
        self.file.read_exact_at(&mut bytes, 0).expect("reads");
        bytes
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // A failed test has a better message than this.
        let _ = shm::unlink(&self.key);
    }
}
