//! Errors of opening a journal and of appending to it.

use crate::blobs::BlobError;
use crate::keys::KeyError;
use flyball_core::Unavailable;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("another process writes to the journal in {}; give that server's address instead", .0.display())]
    Locked(PathBuf),
    #[error("{}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error("{}: {why}", path.display())]
    Node { path: PathBuf, why: String },
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Blobs(#[from] BlobError),
    #[error("the journal cannot store records ({}); see the server's log, then retry", .0.label())]
    Unavailable(Unavailable),
    #[error("the journal has not answered in time; whether the record is stored is unknown")]
    NoAnswer,
}

impl JournalError {
    /// For `map_err` on file operations.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> JournalError {
        move |cause| JournalError::Io { path: path.to_owned(), cause }
    }
}
