//! Where a snapshot's bytes come from: a folder on disk, or memory (the control plane in the same process).
//! Documents are found by digest and checked against it before anything reads them.

use super::{Document, Index, SnapshotFaults};
use crate::Digest;
use serde::Deserialize;
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Beside the index: a DSSE envelope over its exact bytes.
pub const SIGNATURE_FILE: &str = "index.sig.json";
/// As large as any signature that a verifier takes. A larger file is left out: what is signed has a smaller one.
const SIGNATURE_BYTES_MAX: u64 = 4 << 20;

/// A whole snapshot in memory: the index, and the bytes of each document that it names and that could be read.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub index: Index,
    /// What is signed.
    pub index_bytes: Vec<u8>,
    pub signature: Option<Vec<u8>>,
    documents: HashMap<Digest, Vec<u8>>,
    /// What relative artifact paths are relative to.
    pub base: PathBuf,
    /// The index's file, where it came from one.
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
    /// The folder of the index, where it came from a file; else the working directory.
    #[serde(default)]
    base: PathBuf,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    file: Option<PathBuf>,
}

impl Bundle {
    /// Reads `DIR/index.json` (or whatever it is called), `DIR/index.sig.json` where there is one, and
    /// `DIR/deployments/<hex>.json`. A document that cannot be read is left out here and refused by itself when its
    /// deployment is applied: the others go on.
    pub fn from_file(file: &Path) -> Result<Bundle, SourceError> {
        let unreadable = |cause| SourceError::Unreadable { path: file.to_owned(), cause };
        Bundle::beside(file, std::fs::read(file).map_err(unreadable)?)
    }

    /// The same with an index that stands elsewhere; everything else lies beside the file.
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

    /// Reads the in-memory form, `{"index": "<text>", "documents": ["<text>", …], "base": "<folder>", "signature": "<text>",
    /// "file": "<path of the index>"}`; the last three may be left out.
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

    /// The bytes of a document; `None` when they are missing or are not what the digest says.
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
