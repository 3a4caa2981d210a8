//! A disk that fails at a planned call. A failed fdatasync loses the unsynced data.

use super::{Disk, RealDisk};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    Io,
    Space,
    /// A write is short; other calls fail as with `Io`.
    Short,
    /// New files find no space; everything else works.
    NoNewFile,
    /// Names do not reach the disk; everything else works.
    NoName,
    /// Keys and long inputs find no space; everything else works.
    SideFilesFull,
    /// Preallocation for them fails; everything else works.
    NoRoomAhead,
    /// Keys and long inputs do not reach the disk.
    SideFilesIo,
}

/// The failing calls, counted from one, and the kind of failure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    Span { first: u64, calls: u64, failing: Failing },
    Every { calls: u64, failing: Failing },
}

impl Plan {
    fn at(self, call: u64) -> Option<Failing> {
        let (fails, failing) = match self {
            Plan::Span { first, calls, failing } => (call >= first && call - first < calls, failing),
            Plan::Every { calls, failing } => (call.is_multiple_of(calls), failing),
        };
        fails.then_some(failing)
    }
}

#[derive(Debug, Default)]
struct State {
    calls: u64,
    failed: u64,
    plan: Option<Plan>,
    /// Unsynced writes by file: offset and length.
    unsynced: HashMap<u64, Vec<(u64, u64)>>,
    /// Files of keys and long inputs.
    side_files: HashSet<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct FaultyDisk(Mutex<State>, pub(crate) Gate);

/// Holding it blocks every call.
pub(crate) type Gate = Mutex<()>;

impl FaultyDisk {
    /// Restarts the count of calls.
    pub(crate) fn plan(&self, plan: Option<Plan>) {
        let mut state = self.0.lock().unwrap();
        (state.calls, state.plan) = (0, plan);
    }

    pub(crate) fn failed(&self) -> u64 {
        self.0.lock().unwrap().failed
    }

    fn call(&self) -> Result<(), Failing> {
        drop(self.1.lock().unwrap());
        let mut state = self.0.lock().unwrap();
        state.calls += 1;
        match state.plan.and_then(|plan| plan.at(state.calls)) {
            None
            | Some(
                Failing::NoNewFile
                | Failing::NoName
                | Failing::NoRoomAhead
                | Failing::SideFilesFull
                | Failing::SideFilesIo,
            ) => Ok(()),
            Some(failing) => {
                state.failed += 1;
                Err(failing)
            }
        }
    }

    fn pass(&self) -> io::Result<()> {
        self.call().map_err(error)
    }

    /// Failures of one kind of call.
    fn unless(&self, failing: Failing) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.plan.and_then(|plan| plan.at(state.calls)) == Some(failing) {
            state.failed += 1;
            return Err(error(failing));
        }
        Ok(())
    }

    /// Failures of files with keys or long inputs.
    fn unless_side_file(&self, file: &File, failing: Failing) -> io::Result<()> {
        let side_files = self.0.lock().unwrap().side_files.contains(&inode(file));
        if side_files { self.unless(failing) } else { Ok(()) }
    }

    fn opened(&self, path: &Path, file: File) -> File {
        if ["subjects", "unfinished"].iter().any(|name| path.ends_with(name)) {
            self.0.lock().unwrap().side_files.insert(inode(&file));
        }
        file
    }

    /// Writes to a file that were never synced.
    pub(crate) fn unsynced(&self, file: &File) -> Vec<(u64, u64)> {
        self.0.lock().unwrap().unsynced.get(&inode(file)).cloned().unwrap_or_default()
    }

    fn written(&self, file: &File, at: u64, bytes: usize) {
        let mut state = self.0.lock().unwrap();
        state.unsynced.entry(inode(file)).or_default().push((at, bytes as u64));
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path, bytes: u64) -> io::Result<File> {
        self.pass()?;
        self.unless(Failing::NoNewFile)?;
        RealDisk.create(path, bytes).map(|file| self.opened(path, file))
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        self.pass()?;
        RealDisk.open(path).map(|file| self.opened(path, file))
    }

    fn allocate(&self, file: &File, at: u64, bytes: u64) -> io::Result<()> {
        self.pass()?;
        self.unless(Failing::NoRoomAhead)?;
        RealDisk.allocate(file, at, bytes)
    }

    fn write_at(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
        match self.call() {
            Ok(()) => {}
            Err(Failing::Short) => {
                let half = &bytes[..bytes.len() / 2];
                RealDisk.write_all_at(file, half, at)?;
                self.written(file, at, half.len());
                return if half.is_empty() { Err(error(Failing::Short)) } else { Ok(half.len()) };
            }
            Err(failing) => return Err(error(failing)),
        }
        self.unless_side_file(file, Failing::SideFilesFull)?;
        self.written(file, at, bytes.len());
        RealDisk.write_at(file, bytes, at)
    }

    fn fdatasync(&self, file: &File) -> io::Result<()> {
        let answer = self.pass().and_then(|()| self.unless_side_file(file, Failing::SideFilesIo));
        let unsynced = self.0.lock().unwrap().unsynced.remove(&inode(file)).unwrap_or_default();
        if answer.is_err() {
            for (at, bytes) in unsynced {
                RealDisk.write_all_at(file, &vec![0; bytes as usize], at)?;
            }
        }
        answer
    }

    fn truncate(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.pass()?;
        RealDisk.truncate(file, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass()?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.pass()?;
        RealDisk.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.pass()?;
        self.unless(Failing::NoName)?;
        RealDisk.sync_dir(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.pass()?;
        RealDisk.read(path)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass()?;
        RealDisk.copy(from, to)
    }
}

fn inode(file: &File) -> u64 {
    file.metadata().unwrap().ino()
}

fn error(failing: Failing) -> io::Error {
    io::Error::from_raw_os_error(match failing {
        Failing::Space | Failing::NoNewFile | Failing::NoRoomAhead | Failing::SideFilesFull => 28,
        Failing::Io | Failing::Short | Failing::NoName | Failing::SideFilesIo => 5,
    })
}
