//! Where a snapshot's bytes come from: a folder on disk, or memory (the control plane in the same process).
//! Documents are found by digest and checked against it before anything reads them.

use super::{Document, Index, SnapshotFaults};
use crate::Digest;
use serde::Deserialize;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// A whole snapshot in memory: the index, and the bytes of each document that it names and that could be read.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub index: Index,
    documents: HashMap<Digest, Vec<u8>>,
    /// What relative artifact paths are relative to.
    pub base: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("cannot read {path}: {cause}", path = path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("{what}: {faults}")]
    Faulty { what: &'static str, faults: SnapshotFaults },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InMemory {
    index: String,
    documents: Vec<String>,
    /// The folder of the index, where it came from a file; else the working directory.
    #[serde(default)]
    base: PathBuf,
}

impl Bundle {
    /// Reads `DIR/index.json` (or whatever it is called) and `DIR/deployments/<hex>.json`. A document that cannot be
    /// read is left out here and refused by itself when its deployment is applied: the others go on.
    pub fn from_file(index: &Path) -> Result<Bundle, SourceError> {
        let unreadable = |cause| SourceError::Unreadable { path: index.to_owned(), cause };
        let bytes = std::fs::read(index).map_err(unreadable)?;
        let base = index.parent().map(Path::to_owned).unwrap_or_default();
        let index = read_index(&bytes)?;
        let mut documents = HashMap::new();
        for entry in &index.deployments {
            let path = base.join("deployments").join(format!("{}.json", entry.digest.hex()));
            if let Ok(bytes) = std::fs::read(path) {
                documents.insert(entry.digest, bytes);
            }
        }
        Ok(Bundle { index, documents, base })
    }

    /// Reads the in-memory form, `{"index": "<text>", "documents": ["<text>", …], "base": "<folder>"}`.
    pub fn from_memory(bytes: &[u8]) -> Result<Bundle, SourceError> {
        let parts: InMemory = serde_json::from_slice(bytes).map_err(|error| SourceError::Faulty {
            what: "snapshot bundle",
            faults: SnapshotFaults(vec![super::SnapshotFault {
                path: String::new(),
                is: serde_json::Value::Null,
                allowed: format!("an index and its documents as texts, but: {error}"),
            }]),
        })?;
        let documents = parts
            .documents
            .into_iter()
            .map(|text| (Digest::of(text.as_bytes()), text.into_bytes()))
            .collect();
        Ok(Bundle { index: read_index(parts.index.as_bytes())?, documents, base: parts.base })
    }

    /// The bytes of a document; `None` when they are missing or are not what the digest says.
    pub fn document(&self, digest: &Digest) -> Option<&[u8]> {
        let bytes = self.documents.get(digest)?;
        (Digest::of(bytes) == *digest).then_some(bytes)
    }
}

fn read_index(bytes: &[u8]) -> Result<Index, SourceError> {
    Index::read(bytes).map_err(|faults| SourceError::Faulty { what: "snapshot index", faults })
}
