//! Persists embedded windows: one thread writes changes every half second.
//!
//! A crash loses at most a second of events. Stored state is read when a window is opened.

use crate::tokens::Tokens;
use crate::window::WindowState;
use crate::window::codec;
use crate::window::embedded::Embedded;
use crate::window::span::Span;
use crate::window::warmth::Marks;
use flyball_core::{private_file, private_folder};
use redb::{
    Database, ReadableDatabase, ReadableTable, TableDefinition, TableError, TableHandle, WriteTransaction,
};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(500);
const CACHE_BYTES: usize = 32 << 20;
const FORGOTTEN_AFTER_MS: i64 = 7 * 24 * 3_600_000;
/// Table of a window → its length, then its marks.
const WINDOWS: TableDefinition<'_, &str, (i64, i64, i64, i64)> = TableDefinition::new("windows");

type OpenState = Arc<Mutex<Vec<Arc<WindowState>>>>;

pub(crate) struct WindowStore {
    pub(crate) tokens: Arc<Tokens>,
    database: Arc<Database>,
    windows: OpenState,
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WindowStore {
    pub(crate) fn open(folder: &Path, wall_ms: i64) -> Result<WindowStore, String> {
        let path = WindowStore::file(folder);
        let wide = private_folder(folder)
            .map_err(|error| format!("cannot create the directory {}: {error}", folder.display()))?;
        if let Some(warning) = wide {
            tracing::warn!("{warning}");
        }
        let key = folder.join("tokens.key");
        if path.exists() && !key.exists() {
            return Err(format!(
                "{} is missing, but {} needs it; restore it from a copy, or remove both to start again",
                key.display(),
                path.display()
            ));
        }
        let tokens = Arc::new(Tokens::kept(&key)?);
        let failed = |error: &dyn std::fmt::Display| {
            format!(
                "cannot open the windows in {}: {error}; each server needs its own directory",
                path.display()
            )
        };
        let file = private_file(&path).map_err(|error| failed(&error))?;
        let database = Database::builder().set_cache_size(CACHE_BYTES).create_file(file);
        let database = database.map_err(|error| failed(&error))?;
        forget(&database, wall_ms)
            .map_err(|error| format!("cannot clean up the windows in {}: {error}", path.display()))?;
        let database = Arc::new(database);
        let windows = OpenState::default();
        let (end, ended) = sync_channel(1);
        let (theirs, written) = (Arc::clone(&windows), Arc::clone(&database));
        let thread = std::thread::Builder::new()
            .name("fb-windows".into())
            .spawn(move || keep(&written, &theirs, &ended))
            .map_err(|error| format!("cannot start the thread that stores windows: {error}"))?;
        Ok(WindowStore { tokens, database, windows, end: Some(end), thread: Some(thread) })
    }

    pub(crate) fn file(folder: &Path) -> PathBuf {
        folder.join("windows.redb")
    }

    /// Removes a key from all stored windows permanently; returns those that had it.
    pub(crate) fn erase(&self, key: &str) -> Result<Vec<String>, String> {
        let token = self.tokens.token(key);
        let erase = || -> Result<Vec<String>, redb::Error> {
            let transaction = self.database.begin_write()?;
            let mut had = Vec::new();
            let tables: Vec<String> =
                transaction.list_tables()?.map(|table| table.name().to_owned()).collect();
            for table in tables.into_iter().filter(|table| table != WINDOWS.name()) {
                if transaction.open_table(keys(&table))?.remove(token.as_str())?.is_some() {
                    had.push(table);
                }
            }
            transaction.commit()?;
            Ok(had)
        };
        erase().map_err(|error| format!("cannot remove a key from the windows: {error}"))
    }

    /// When the window of this table was first created, if known.
    pub(crate) fn marks(&self, table: &str) -> Result<Option<Marks>, redb::Error> {
        let read = self.database.begin_read()?;
        let marks = match read.open_table(WINDOWS) {
            Ok(windows) => windows.get(table)?.map(|row| row.value()),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(marks.map(|(_, since_ms, newest_ms, wall_ms)| Marks { since_ms, newest_ms, wall_ms }))
    }

    pub(crate) fn restore(&self, table: &str, span: &Span, into: &Embedded) -> Result<(), redb::Error> {
        let read = self.database.begin_read()?;
        let keys = match read.open_table(keys(table)) {
            Ok(keys) => keys,
            Err(TableError::TableDoesNotExist(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for row in keys.iter()? {
            let (name, value) = row?;
            // Unreadable data was written by a newer server: dropped, and rewritten by the next event.
            let tally = codec::read(value.value()).unwrap_or_default();
            into.restore(span, name.value(), tally);
        }
        Ok(())
    }

    /// Persists the window from now on, until it is otherwise unused.
    pub(crate) fn adopt(&self, window: &Arc<WindowState>) {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if window.embedded().is_some() && !windows.iter().any(|known| Arc::ptr_eq(known, window)) {
            windows.push(Arc::clone(window));
        }
    }
}

impl Drop for WindowStore {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A panic was already reported, and its data is written.
            let _ = thread.join();
        }
    }
}

fn keys(table: &str) -> TableDefinition<'_, &'static str, &'static [u8]> {
    TableDefinition::new(table)
}

fn keep(database: &Database, windows: &OpenState, ended: &Receiver<()>) {
    let mut failing = false;
    loop {
        let end = !matches!(ended.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout));
        let opened = windows.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let written = write(database, &opened);
        match &written {
            Ok(()) if failing => tracing::warn!("windows are stored again"),
            Err(error) if !failing => {
                tracing::error!(%error, "cannot store windows; a restart would lose them: free disk space");
            }
            _ => {}
        }
        failing = written.is_err();
        drop(opened);
        if end {
            return;
        }
        // Written just now, and no other holder can have changed it.
        windows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|window| failing || Arc::strong_count(window) > 1 || window.changed());
    }
}

/// Writes all changes of all windows in one transaction.
fn write(database: &Database, windows: &[Arc<WindowState>]) -> Result<(), redb::Error> {
    let changed: Vec<_> = windows
        .iter()
        .filter_map(|window| window.embedded().map(|embedded| (window, embedded, embedded.changes.take())))
        .filter(|(_, _, keys)| !keys.is_empty())
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let written = (|| {
        let transaction = database.begin_write()?;
        let mut bytes = Vec::new();
        for (window, embedded, changes) in &changed {
            let mut table = transaction.open_table(keys(&window.table))?;
            for key in changes {
                bytes.clear();
                match key.settle(|tally| codec::write(tally, &mut bytes)) {
                    Some(()) => table.insert(&*key.name, bytes.as_slice())?,
                    None => table.remove(&*key.name)?,
                };
            }
            if let Some(marks) = embedded.warmth.marks() {
                let row = (window.span.last_ms, marks.since_ms, marks.newest_ms, marks.wall_ms);
                transaction.open_table(WINDOWS)?.insert(window.table.as_str(), row)?;
            }
        }
        transaction.commit()?;
        Ok(())
    })();
    if written.is_err() {
        for (_, embedded, keys) in changed {
            embedded.changes.give_back(keys);
        }
    }
    written
}

/// Drops windows without events for long: they belong to no decision any more.
fn forget(database: &Database, wall_ms: i64) -> Result<(), redb::Error> {
    let transaction: WriteTransaction = database.begin_write()?;
    {
        let mut windows = transaction.open_table(WINDOWS)?;
        let mut over = Vec::new();
        for row in windows.iter()? {
            let (table, marks) = row?;
            let (last_ms, _, _, at_ms) = marks.value();
            if wall_ms.saturating_sub(at_ms) > last_ms.saturating_mul(2).saturating_add(FORGOTTEN_AFTER_MS) {
                over.push(table.value().to_owned());
            }
        }
        for table in over {
            windows.remove(table.as_str())?;
            transaction.delete_table(keys(&table))?;
        }
    }
    transaction.commit()?;
    Ok(())
}
