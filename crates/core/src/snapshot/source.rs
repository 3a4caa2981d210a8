//! Reads a snapshot from a directory or from memory (an in-process control plane).
//!
//! Documents are found by digest and verified before they are parsed.

use super::{Document, Index, SnapshotFaults};
use crate::Digest;
use serde::Deserialize;
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The file next to the index: a DSSE envelope over its exact bytes.
pub const SIGNATURE_FILE: &str = "index.sig.json";
/// The largest signature that a verifier accepts. A larger file is ignored: no valid signature has that size.
const SIGNATURE_BYTES_MAX: u64 = 4 << 20;

/// A whole snapshot in memory: the index and the bytes of each readable document.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub index: Index,
    /// The signed bytes.
    pub index_bytes: Vec<u8>,
    pub signature: Option<Vec<u8>>,
    documents: HashMap<Digest, Vec<u8>>,
    /// The directory that relative artifact paths start from.
    pub base: PathBuf,
    /// The index's file, if it came from one.
    pub file: Option<PathBuf>,
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
    /// The directory of the index if it came from a file; else the working directory.
    #[serde(default)]
    base: PathBuf,
    signature: Option<String>,
    file: Option<PathBuf>,
}

impl Bundle {
    /// Reads an index file, its optional signature and its deployment documents.
    ///
    /// The signature is `DIR/index.sig.json`, documents are `DIR/deployments/<hex>.json`. An unreadable
    /// document is omitted here and rejected when its deployment is applied: the others go on.
    pub fn from_file(file: &Path) -> Result<Bundle, SourceError> {
        let unreadable = |cause| SourceError::Unreadable { path: file.to_owned(), cause };
        Bundle::beside(file, std::fs::read(file).map_err(unreadable)?)
    }

    /// Reads a snapshot with the given index bytes; everything else is next to the file.
    pub fn beside(file: &Path, index_bytes: Vec<u8>) -> Result<Bundle, SourceError> {
        let base = file.parent().map(Path::to_owned).unwrap_or_default();
        let index = read_index(&index_bytes)?;
        let signature = read_signature(&base.join(SIGNATURE_FILE));
        let mut documents = HashMap::new();
        for entry in &index.deployments {
            let path = base.join("deployments").join(format!("{}.json", entry.digest.hex()));
            if let Ok(bytes) = std::fs::read(path) {
                documents.insert(entry.digest, bytes);
            }
        }
        Ok(Bundle { index, index_bytes, signature, documents, base, file: Some(file.to_owned()) })
    }

    /// Reads the in-memory form.
    ///
    /// The form is `{"index": "<text>", "documents": ["<text>", …], "base": "<folder>", "signature":
    /// "<text>", "file": "<path of the index>"}`; the last three are optional.
    pub fn from_memory(bytes: &[u8]) -> Result<Bundle, SourceError> {
        let parts: InMemory = serde_json::from_slice(bytes).map_err(|error| SourceError::Faulty {
            what: "snapshot bundle",
            faults: SnapshotFaults(vec![super::SnapshotFault {
                path: String::new(),
                is: serde_json::Value::Null,
                allowed: format!("an index and its documents as texts, but: {error}"),
            }]),
        })?;
        let InMemory { index, documents, base, signature, file } = parts;
        let documents =
            documents.into_iter().map(|text| (Digest::of(text.as_bytes()), text.into_bytes())).collect();
        Ok(Bundle {
            index: read_index(index.as_bytes())?,
            index_bytes: index.into_bytes(),
            signature: signature.map(String::into_bytes),
            documents,
            base,
            file,
        })
    }

    /// The bytes of a document; `None` if they are missing or do not match the digest.
    pub fn document(&self, digest: &Digest) -> Option<&[u8]> {
        let bytes = self.documents.get(digest)?;
        (Digest::of(bytes) == *digest).then_some(bytes)
    }
}

fn read_signature(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(SIGNATURE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= SIGNATURE_BYTES_MAX).then_some(bytes)
}

fn read_index(bytes: &[u8]) -> Result<Index, SourceError> {
    Index::read(bytes).map_err(|faults| SourceError::Faulty { what: "snapshot index", faults })
}
