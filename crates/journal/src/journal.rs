//! A journal that is open: the recorder of a server, and what other threads append to. Opening it takes the folder's lock,
//! makes good what a crash has left, and starts the thread that writes.

use crate::blobs::Blobs;
use crate::counts::JournalCounts;
use crate::disk::{Disk, RealDisk};
use crate::error::JournalError;
use crate::folder::Folder;
use crate::keys::{KekPlace, Keys};
use crate::lane::JournalLane;
use crate::node::Node;
use crate::opening::{self, Notes};
use crate::payload::{self, Beside};
use crate::settings::JournalSettings;
use crate::shared::{Letter, Shared};
use crate::writer::{SealThen, Sealed, Start, Writer};
use flyball_core::{Entry, LaneRecorder, Recorder, Registered, Served, Unkept};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Longer than a disk takes that will answer at all.
const ANSWER_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    folder: Folder,
    keys: Arc<Keys>,
    /// Held while an erasure or a hold looks at the log and is recorded.
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
        let kek = settings.kek.clone().unwrap_or_else(|| KekPlace::own(&path));
        let keys = Arc::new(Keys::open_on(Arc::clone(&disk), &path, &kek, true)?);
        let beside = Beside::new(Arc::clone(&keys), Blobs::open_on(Arc::clone(&disk), &path)?);
        let notes = Notes::read(&*disk, &folder).map_err(at())?;
        let mut tail = opening::find_tail(&*disk, &folder, &notes)?;
        tail.reports.extend(notes.report());
        let sealed = opening::roots(&*disk, &folder, &tail.before).map_err(at())?;
        let roots = disk.open(&folder.file("roots")).map_err(at())?;
        let unix_ns = settings.wall.now_ns();
        let start = Start {
            node,
            beside,
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
        opening::forget_cut(&*disk, &folder).map_err(at())?;
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

    /// What was offered so far is in the file, or was counted as lost. Waits for the disk: not for a lane.
    pub(crate) fn flush(&self) -> Result<(), JournalError> {
        self.ask(Letter::Flush).map(drop)
    }

    /// Waits until the entry is on the disk: not for a lane. Gives its sequence number.
    pub fn append(&self, entry: Entry) -> Result<u64, JournalError> {
        self.ask(|reply| Letter::Entry(Box::new(entry), reply))
    }

    /// Seals the open segment now, where it has a record. Waits for the disk: not for a lane.
    pub fn seal(&self) -> Result<Sealed, JournalError> {
        self.ask(|reply: SyncSender<_>| {
            Letter::Seal(SealThen::new(move |sealed| {
                let _ = reply.try_send(sealed);
            }))
        })
    }

    /// And without waiting: `then` is told on the writer's thread, and must not wait for anything itself.
    pub fn seal_then(
        &self,
        then: impl FnOnce(Result<Sealed, Unkept>) + Send + 'static,
    ) -> Result<(), Unkept> {
        self.shared.post(Letter::Seal(SealThen::new(then)))
    }

    pub fn counts(&self) -> JournalCounts {
        self.shared.counts()
    }

    /// Brings all to the disk that was offered, seals it, and signs a last checkpoint. Whoever comes later is refused.
    pub fn close(&self) {
        self.shared.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the journal's writer ended with a panic");
        }
    }

    fn ask<T>(
        &self,
        letter: impl FnOnce(SyncSender<Result<T, Unkept>>) -> Letter,
    ) -> Result<T, JournalError> {
        let (reply, answer) = sync_channel(1);
        if let Some(why) = self.shared.unkept() {
            return Err(JournalError::Unkept(why));
        }
        self.shared.post(letter(reply)).map_err(JournalError::Unkept)?;
        match answer.recv_timeout(ANSWER_MAX) {
            Ok(kept) => kept.map_err(JournalError::Unkept),
            Err(_) => Err(JournalError::NoAnswer),
        }
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

    /// Written again later, where it cannot be now.
    fn served(&self, served: Served) {
        let decision = served.decision.clone();
        let (reply, answer) = sync_channel(1);
        let posted = self.shared.post(Letter::Served(Box::new(served), reply)).map_err(JournalError::Unkept);
        let kept = posted.and_then(|()| match answer.recv_timeout(ANSWER_MAX) {
            Ok(kept) => kept.map_err(JournalError::Unkept),
            Err(_) => Err(JournalError::NoAnswer),
        });
        if let Err(error) = kept {
            tracing::error!(decision, %error, "how a decision serves is not in the journal yet");
        }
    }

    /// Not written again later: the next snapshot names a later event.
    fn registered(&self, registered: Registered) {
        let entry = payload::registered(&registered, self.shared.wall.now_ns());
        if let Err(error) = self.append(entry) {
            let sequence = registered.sequence;
            tracing::error!(sequence, %error, "which event of the registry serves is not in the journal");
        }
    }
}

/// Whoever waits is told when the writer ends, however it does.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests;
