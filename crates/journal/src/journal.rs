//! An open journal: the server's recorder, and the interface for other threads.
//!
//! Opening it takes the directory's lock, repairs what a crash left, and starts the writer thread.

use crate::blobs::Blobs;
use crate::counts::JournalCounts;
use crate::disk::{Disk, RealDisk};
use crate::error::JournalError;
use crate::folder::Folder;
use crate::keys::{KekSource, Keys};
use crate::lane::JournalLane;
use crate::node::Node;
use crate::payload::{self, SideFiles};
use crate::recovery::{self, Notes};
use crate::settings::JournalSettings;
use crate::shared::{Shared, WriterRequest};
use crate::writer::{Sealed, Start, Writer};
use flyball_core::{JournalRecord, LaneRecorder, Recorder, Registered, Served, Unavailable};
use std::fmt;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Longer than any working disk takes.
const ANSWER_MAX: Duration = Duration::from_secs(30);

pub struct Journal {
    shared: Arc<Shared>,
    folder: Folder,
    keys: Arc<Keys>,
    /// Held while an erasure or a hold reads the log and is recorded.
    ledger: Mutex<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Journal {
    pub fn open(settings: JournalSettings) -> Result<Arc<Journal>, JournalError> {
        Journal::open_on(Arc::new(RealDisk), settings)
    }

    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        settings: JournalSettings,
    ) -> Result<Arc<Journal>, JournalError> {
        let path = settings.folder.clone();
        let at = || JournalError::at(&path);
        let folder = Folder::make(&path).map_err(at())?;
        let lock = folder.lock().map_err(at())?.ok_or_else(|| JournalError::Locked(path.clone()))?;
        let node = Node::open(&*disk, &folder, settings.key.as_deref())?;
        let kek = settings.kek.clone().unwrap_or_else(|| KekSource::own(&path));
        let keys = Arc::new(Keys::open_on(Arc::clone(&disk), &path, &kek)?);
        let side_files = SideFiles::new(Arc::clone(&keys), Blobs::open_on(Arc::clone(&disk), &path)?);
        let notes = Notes::read(&*disk, &folder).map_err(at())?;
        let mut tail = recovery::find_tail(&*disk, &folder, &notes)?;
        tail.reports.extend(notes.report());
        let sealed = recovery::roots(&*disk, &folder, &tail.before).map_err(at())?;
        let roots = disk.open(&folder.file("roots")).map_err(at())?;
        let unix_ns = settings.wall.now_ns();
        let start = Start {
            node,
            side_files,
            sealed,
            roots,
            lock,
            before: tail.before,
            began: tail.began,
            checkpoints_bytes: notes.bytes,
            reports: tail.reports.iter().map(|report| report.record(unix_ns)).collect(),
            folder: folder.clone(),
            disk: Arc::clone(&disk),
        };
        let shared = Arc::new(Shared::new(&settings));
        let writer = Writer::begin(start, settings, Arc::clone(&shared)).map_err(at())?;
        recovery::forget_cut(&*disk, &folder).map_err(at())?;
        notes.set_aside(&*disk, &folder).map_err(at())?;
        let watched = Arc::clone(&shared);
        let thread = thread::Builder::new().name("journal".into()).spawn(move || {
            let _end = End(watched);
            writer.run();
        });
        let thread = Mutex::new(Some(thread.map_err(at())?));
        Ok(Arc::new(Journal { shared, folder, keys, ledger: Mutex::new(()), thread }))
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn alone(&self) -> MutexGuard<'_, ()> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all offered records are in the file or counted as lost. Not for a lane: waits for the
    /// disk.
    pub(crate) fn flush(&self) -> Result<(), JournalError> {
        self.ask(WriterRequest::Flush).map(drop)
    }

    /// Appends a record and waits until it is on disk. Returns its sequence number. Not for a lane.
    pub fn append(&self, record: JournalRecord) -> Result<u64, JournalError> {
        self.ask(|reply| WriterRequest::Append(Box::new(record), reply))
    }

    /// Seals the open segment now, if it has a record. Not for a lane: waits for the disk.
    pub fn seal(&self) -> Result<Sealed, JournalError> {
        self.ask(|reply: SyncSender<_>| {
            WriterRequest::Seal(Box::new(move |sealed| {
                let _ = reply.try_send(sealed);
            }))
        })
    }

    /// Seals without waiting: calls `then` on the writer's thread, where it must not block.
    pub fn seal_then(
        &self,
        then: impl FnOnce(Result<Sealed, Unavailable>) + Send + 'static,
    ) -> Result<(), Unavailable> {
        self.shared.post(WriterRequest::Seal(Box::new(then)))
    }

    pub fn counts(&self) -> JournalCounts {
        self.shared.counts()
    }

    /// Brings all offered records to disk, seals them, and signs a last checkpoint. Later calls are rejected.
    pub fn close(&self) {
        self.shared.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the journal's writer panicked");
        }
    }

    fn ask<T>(
        &self,
        letter: impl FnOnce(SyncSender<Result<T, Unavailable>>) -> WriterRequest,
    ) -> Result<T, JournalError> {
        if let Some(why) = self.shared.unavailable() {
            return Err(JournalError::Unavailable(why));
        }
        self.post_and_wait(letter)
    }

    /// Also while records cannot be stored: the writer decides what to do with the request.
    fn post_and_wait<T>(
        &self,
        letter: impl FnOnce(SyncSender<Result<T, Unavailable>>) -> WriterRequest,
    ) -> Result<T, JournalError> {
        let (reply, answer) = sync_channel(1);
        self.shared.post(letter(reply)).map_err(JournalError::Unavailable)?;
        match answer.recv_timeout(ANSWER_MAX) {
            Ok(kept) => kept.map_err(JournalError::Unavailable),
            Err(_) => Err(JournalError::NoAnswer),
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").finish_non_exhaustive()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

impl Recorder for Journal {
    fn lane(&self, lane: usize) -> Box<dyn LaneRecorder> {
        Box::new(JournalLane::new(Arc::clone(&self.shared), lane))
    }

    /// Written later if it cannot be written now.
    fn served(&self, served: Served) {
        let decision = served.decision.clone();
        let kept = self.post_and_wait(|reply| WriterRequest::Served(Box::new(served), reply));
        if let Err(error) = kept {
            tracing::error!(decision, %error, "the journal does not contain a decision's serving document yet");
        }
    }

    /// Not retried: the next snapshot names a later event.
    fn registered(&self, registered: Registered) {
        let record = payload::registered(&registered, self.shared.wall.now_ns());
        if let Err(error) = self.append(record) {
            let sequence = registered.sequence;
            tracing::error!(sequence, %error, "the journal does not contain the registry event that serves now");
        }
    }
}

/// Notifies waiting threads when the writer ends, for whatever reason.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests;
