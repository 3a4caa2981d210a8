//! Replaces a set of the embedded store: the file is copied beside itself, changed there, and moved into its place whole.
//!
//! Readers have the old set or the new one, never half of it. Two pushes at once would lose one: the second is refused.

use crate::store::table;
use redb::{Database, WriteTransaction};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

pub(crate) struct StoreWriter {
    set: String,
    path: PathBuf,
    /// What becomes the store; removed where it does not.
    draft: PathBuf,
    /// None: closed, which it is before it is moved.
    database: Option<Database>,
    transaction: Option<WriteTransaction>,
    _lock: File,
}

impl StoreWriter {
    pub(crate) fn begin(path: &Path, set: &str) -> Result<StoreWriter, String> {
        let told =
            |what: &str, error: &dyn std::fmt::Display| format!("cannot {what} {}: {error}", path.display());
        let beside = |ending: &str| {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(ending);
            path.with_file_name(name)
        };
        let lock = File::create(beside(".lock")).map_err(|error| told("lock", &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("another push writes {}; wait until it is done", path.display()));
            }
            Err(TryLockError::Error(error)) => return Err(told("lock", &error)),
        }
        let draft = beside(".draft");
        // Left over from a push that was killed.
        let _ = std::fs::remove_file(&draft);
        if path.exists() {
            std::fs::copy(path, &draft).map_err(|error| told("copy", &error))?;
        }
        let database = Database::create(&draft).map_err(|error| told("open", &error))?;
        let begun = || -> Result<WriteTransaction, redb::Error> {
            let transaction = database.begin_write()?;
            transaction.delete_table(table(set))?;
            transaction.open_table(table(set))?;
            Ok(transaction)
        };
        let transaction = begun().map_err(|error| told("write", &error))?;
        let (set, path) = (set.to_owned(), path.to_owned());
        Ok(StoreWriter {
            set,
            path,
            draft,
            database: Some(database),
            transaction: Some(transaction),
            _lock: lock,
        })
    }

    pub(crate) fn put(&mut self, records: &[(String, Vec<u8>)]) -> Result<(), String> {
        let write = || -> Result<(), redb::Error> {
            let Some(transaction) = &self.transaction else { return Ok(()) };
            let mut table = transaction.open_table(table(&self.set))?;
            for (key, record) in records {
                table.insert(key.as_str(), record.as_slice())?;
            }
            Ok(())
        };
        write().map_err(|error| format!("cannot write {}: {error}", self.draft.display()))
    }

    /// From now on this is the store.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        let replaced = self.replace();
        replaced.map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }

    fn replace(&mut self) -> Result<(), redb::Error> {
        if let Some(transaction) = self.transaction.take() {
            transaction.commit()?;
        }
        if let Some(mut database) = self.database.take() {
            // What the old set had is free now; without this the file would only grow.
            database.compact()?;
        }
        std::fs::rename(&self.draft, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }
}

impl Drop for StoreWriter {
    fn drop(&mut self) {
        self.transaction = None;
        self.database = None;
        // Not there where it became the store.
        let _ = std::fs::remove_file(&self.draft);
    }
}
