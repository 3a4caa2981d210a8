//! The embedded store: records of several sets in one file, read by one thread.
//!
//! No lane touches the disk. The file is never changed in place: a push writes a new one and renames it, and
//! the next read opens that.

mod write;

pub(crate) use write::{StoreWriter, erase};

use crate::record::RECORD_BYTES_MAX;
use crate::source::SourceState;
use crate::tokens::Tokens;
use crate::{LookupError, Record, SourceKind};
use redb::{Builder, ReadOnlyDatabase, ReadableDatabase, TableDefinition};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use tokio::sync::oneshot;

const ASKED_MAX: usize = 4096;
const CACHE_BYTES: usize = 64 << 20;

type Answer = Result<Option<Record>, LookupError>;

struct Ask {
    source: Arc<SourceState>,
    key: String,
    answer: oneshot::Sender<Answer>,
}

/// The handle by which lanes query the thread, which ends with the last source of a store.
pub(crate) struct StoreReader(SyncSender<Ask>);

impl StoreReader {
    pub(crate) fn start() -> Result<StoreReader, String> {
        let (sender, asks) = sync_channel(ASKED_MAX);
        std::thread::Builder::new()
            .name("fb-store".into())
            .spawn(move || answer_all(&asks))
            .map_err(|error| format!("cannot start the thread that reads the embedded store: {error}"))?;
        Ok(StoreReader(sender))
    }

    pub(crate) async fn ask(&self, source: &Arc<SourceState>, key: &str) -> Answer {
        let (answer, answered) = oneshot::channel();
        let ask = Ask { source: Arc::clone(source), key: key.to_owned(), answer };
        match self.0.try_send(ask) {
            Ok(()) => answered.await.unwrap_or(Err(LookupError::Down)),
            Err(TrySendError::Full(_)) => Err(LookupError::Busy),
            Err(TrySendError::Disconnected(_)) => Err(LookupError::Down),
        }
    }
}

fn answer_all(asks: &Receiver<Ask>) {
    let mut files = HashMap::<PathBuf, File>::new();
    while let Ok(ask) = asks.recv() {
        // The caller may be gone, by its deadline.
        if ask.answer.is_closed() {
            continue;
        }
        let SourceKind::Store { path } = &ask.source.def.kind else { continue };
        let answer = answer(&mut files, path, &ask.source.def.set, &ask.key);
        let _ = ask.answer.send(answer);
    }
}

fn answer(files: &mut HashMap<PathBuf, File>, path: &Path, set: &str, key: &str) -> Answer {
    let identity = Identity::of(path).ok_or(LookupError::Down)?;
    let file = match files.get(path).filter(|file| file.identity == identity) {
        Some(file) => file,
        None => {
            files.remove(path);
            let opened = File::open(path, identity)?;
            files.entry(path.to_owned()).or_insert(opened)
        }
    };
    get(&file.database, set, file.tokens.token(key).as_str())
}

struct File {
    identity: Identity,
    database: ReadOnlyDatabase,
    tokens: Tokens,
}

impl File {
    fn open(path: &Path, identity: Identity) -> Result<File, LookupError> {
        let opened = Builder::new().set_cache_size(CACHE_BYTES).open_read_only(path);
        let database = opened.map_err(|error| {
            tracing::warn!(path = %path.display(), %error, "cannot open the embedded store; push it again");
            LookupError::Bad
        })?;
        let tokens = Tokens::read(&key_path(path)).map_err(|error| {
            tracing::warn!(%error, "cannot read the embedded store without its key; push it again");
            LookupError::Bad
        })?;
        Ok(File { identity, database, tokens })
    }
}

/// Identifies the file at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    bytes: u64,
}

impl Identity {
    fn of(path: &Path) -> Option<Identity> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
        })
    }
}

/// The path of a store's token key: next to it, under its name.
pub(crate) fn key_path(path: &Path) -> PathBuf {
    beside(path, ".key")
}

pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

pub(crate) fn table(set: &str) -> TableDefinition<'_, &'static str, &'static [u8]> {
    TableDefinition::new(set)
}

fn get(database: &ReadOnlyDatabase, set: &str, key: &str) -> Answer {
    let read = || -> Result<Option<Vec<u8>>, redb::Error> {
        let table = database.begin_read()?.open_table(table(set))?;
        let value = table.get(key)?;
        Ok(value.map(|value| value.value()[..value.value().len().min(RECORD_BYTES_MAX + 1)].to_vec()))
    };
    let bytes = read().map_err(|_| LookupError::Bad)?;
    bytes.map(|bytes| Record::read(&bytes)).transpose().map_err(|_| LookupError::Bad)
}

/// One record, for inspection.
pub(crate) fn look(path: &Path, set: &str, key: &str) -> Result<Option<Vec<u8>>, String> {
    let failed = |error: redb::Error| format!("cannot read set {set} of {}: {error}", path.display());
    let database = ReadOnlyDatabase::open(path).map_err(|error| failed(error.into()))?;
    let token = Tokens::read(&key_path(path))?.token(key);
    let read = || -> Result<Option<Vec<u8>>, redb::Error> {
        let table = database.begin_read()?.open_table(table(set))?;
        Ok(table.get(token.as_str())?.map(|value| value.value().to_vec()))
    };
    read().map_err(failed)
}
