//! Replaces a set of the embedded store: copies the file, changes the copy, renames it.
//!
//! Readers see the old set or the new one, never a mixture. Two concurrent pushes would lose one: the second
//! is rejected.

use crate::store::{beside, key_path, table};
use crate::tokens::{Tokens, sync_folder_of};
use flyball_core::private_file;
use redb::{Database, ReadOnlyDatabase, ReadableDatabase, ReadableTable, TableHandle, WriteTransaction};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

pub(crate) struct StoreWriter {
    set: String,
    path: PathBuf,
    /// The future store; removed if the push fails.
    draft: PathBuf,
    tokens: Tokens,
    /// None: closed, as required before the rename.
    database: Option<Database>,
    transaction: Option<WriteTransaction>,
    _lock: File,
}

impl StoreWriter {
    pub(crate) fn begin(path: &Path, set: &str) -> Result<StoreWriter, String> {
        let failed =
            |what: &str, error: &dyn std::fmt::Display| format!("cannot {what} {}: {error}", path.display());
        let lock = lock(path)?;
        let key = key_path(path);
        if path.exists() && !key.exists() {
            return Err(format!(
                "{} is missing, but {} needs it; restore it from a copy, or remove both and push all sets again",
                key.display(),
                path.display()
            ));
        }
        let tokens = Tokens::kept(&key)?;
        let draft = beside(path, ".draft");
        // A leftover of a killed push.
        let _ = std::fs::remove_file(&draft);
        if path.exists() {
            std::fs::copy(path, &draft).map_err(|error| failed("copy", &error))?;
        }
        let database = private_database(&draft)?;
        let begun = || -> Result<WriteTransaction, redb::Error> {
            let transaction = database.begin_write()?;
            transaction.delete_table(table(set))?;
            transaction.open_table(table(set))?;
            Ok(transaction)
        };
        let transaction = begun().map_err(|error| failed("write", &error))?;
        let (set, path) = (set.to_owned(), path.to_owned());
        Ok(StoreWriter {
            set,
            path,
            draft,
            tokens,
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
                table.insert(self.tokens.token(key).as_str(), record.as_slice())?;
            }
            Ok(())
        };
        write().map_err(|error| format!("cannot write {}: {error}", self.draft.display()))
    }

    /// Makes the draft the store.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        let replaced = self.replace();
        replaced.map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }

    fn replace(&mut self) -> Result<(), redb::Error> {
        if let Some(transaction) = self.transaction.take() {
            transaction.commit()?;
        }
        if let Some(mut database) = self.database.take() {
            // The old set's space is free now; without this the file would only grow.
            database.compact()?;
        }
        Ok(into_place(&self.draft, &self.path)?)
    }
}

fn lock(path: &Path) -> Result<File, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot lock {}: {error}", path.display());
    let lock = private_file(&beside(path, ".lock")).map_err(|error| failed(&error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            Err(format!("another push is writing {}; wait until it is done", path.display()))
        }
        Err(TryLockError::Error(error)) => Err(failed(&error)),
    }
}

fn private_database(path: &Path) -> Result<Database, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot open {}: {error}", path.display());
    let file = private_file(path).map_err(|error| failed(&error))?;
    Database::builder().create_file(file).map_err(|error| failed(&error))
}

fn into_place(draft: &Path, path: &Path) -> std::io::Result<()> {
    std::fs::rename(draft, path)?;
    sync_folder_of(path)
}

/// Removes keys from all sets of a store; returns how many records it had.
///
/// The file is rewritten: a changed database would retain removed data until its page is reused.
pub(crate) fn erase(path: &Path, keys: &[String]) -> Result<u64, String> {
    let _lock = lock(path)?;
    let tokens = Tokens::read(&key_path(path))?;
    let erased: Vec<_> = keys.iter().map(|key| tokens.token(key)).collect();
    let draft = beside(path, ".draft");
    let _ = std::fs::remove_file(&draft);
    let copy = || -> Result<u64, redb::Error> {
        let database = ReadOnlyDatabase::open(path)?;
        let read = database.begin_read()?;
        let names: Vec<String> = read.list_tables()?.map(|table| table.name().to_owned()).collect();
        let had = |name: &str| -> Result<u64, redb::Error> {
            let from = read.open_table(table(name))?;
            let mut count = 0;
            for token in &erased {
                count += u64::from(from.get(token.as_str())?.is_some());
            }
            Ok(count)
        };
        let mut count = 0;
        for name in &names {
            count += had(name)?;
        }
        if count == 0 {
            return Ok(0);
        }
        let made = private_database(&draft).map_err(|error| redb::Error::Io(std::io::Error::other(error)))?;
        let write = made.begin_write()?;
        for name in &names {
            let (from, mut to) = (read.open_table(table(name))?, write.open_table(table(name))?);
            for row in from.iter()? {
                let (key, record) = row?;
                if !erased.iter().any(|token| token.as_str() == key.value()) {
                    to.insert(key.value(), record.value())?;
                }
            }
        }
        write.commit()?;
        drop(made);
        into_place(&draft, path)?;
        Ok(count)
    };
    copy().map_err(|error| format!("cannot remove a key from {}: {error}", path.display()))
}

impl Drop for StoreWriter {
    fn drop(&mut self) {
        self.transaction = None;
        self.database = None;
        // Gone if it became the store.
        let _ = std::fs::remove_file(&self.draft);
    }
}
