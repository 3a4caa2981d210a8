//! A model's bytes, read once, checked against their digests, and from then on used from memory: what was verified is
//! what runs, whatever happens to the files meanwhile.

use crate::{MemoryBudget, Refusal, ScanFacts, ScanLimits};
use flyball_core::{Digest, snapshot};
use serde::Serialize;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A file that belongs to a model.
#[derive(Clone, Debug, Serialize)]
pub struct ArtifactFile {
    pub name: String,
    pub digest: Digest,
    pub size_bytes: u64,
}

/// A verified model in memory.
#[derive(Debug)]
pub struct Artifact {
    pub digest: Digest,
    pub facts: ScanFacts,
    pub(crate) model: Vec<u8>,
    pub(crate) external_data: Vec<(String, Arc<[u8]>)>,
}

impl Artifact {
    /// Reads what the snapshot names, relative paths from `base`, and refuses whatever is not exactly that.
    /// What would not fit into memory is refused before it is read.
    pub fn read(wanted: &snapshot::Artifact, base: &Path, memory: MemoryBudget) -> Result<Artifact, Refusal> {
        let path = base.join(&wanted.path);
        let files = wanted.external_data.iter().map(|file| path.with_file_name(&file.name));
        let size = |file: &Path| file.metadata().map_or(0, |metadata| metadata.len());
        let limits = ScanLimits::default();
        limits.file(size(&path))?;
        memory.room_for(size(&path) + files.map(|file| size(&file)).sum::<u64>())?;
        let model = read_verified(&path, &wanted.digest)?;
        let facts = ScanFacts::of(&model, &limits)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut external_data = Vec::with_capacity(facts.external_data.len());
        for (name, &needs) in &facts.external_data {
            let listed = wanted.external_data.iter().find(|file| file.name == *name);
            let listed = listed.ok_or_else(|| Refusal::ExternalDataUnlisted(name.clone()))?;
            let bytes = read_verified(&folder.join(name), &listed.digest)?;
            reaches(name, bytes.len() as u64, needs)?;
            external_data.push((name.clone(), bytes.into()));
        }
        Ok(Artifact { digest: wanted.digest, facts, model, external_data })
    }

    /// Reads a model as it lies on disk, for `inspect`: there is no snapshot yet that says what it must be.
    pub fn read_unverified(path: &Path) -> Result<Artifact, Refusal> {
        let (model, files, _facts) = digest_files(path)?;
        let listed =
            files.into_iter().map(|file| snapshot::ExternalData { name: file.name, digest: file.digest });
        let wanted = snapshot::Artifact {
            path: path.to_string_lossy().into_owned(),
            digest: model.digest,
            external_data: listed.collect(),
        };
        Artifact::read(&wanted, Path::new(""), MemoryBudget::UNLIMITED)
    }

    pub fn size_bytes(&self) -> u64 {
        let external: usize = self.external_data.iter().map(|(_, bytes)| bytes.len()).sum();
        (self.model.len() + external) as u64
    }
}

/// The digests of a model and of the files beside it that it uses: what a snapshot has to list; and what the model
/// says of itself.
pub fn digest_files(path: &Path) -> Result<(ArtifactFile, Vec<ArtifactFile>, ScanFacts), Refusal> {
    let (bytes, facts) = scanned(path, &ScanLimits::default())?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let model = ArtifactFile { name, digest: Digest::of(&bytes), size_bytes: bytes.len() as u64 };
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut files = Vec::new();
    for (name, &needs) in &facts.external_data {
        let path = folder.join(name);
        let size_bytes = length(&path)?;
        reaches(name, size_bytes, needs)?;
        let file = File::open(&path).map_err(|cause| unreadable(&path, cause))?;
        let digest = Digest::of_reader(file).map_err(|cause| unreadable(&path, cause))?;
        files.push(ArtifactFile { name: name.clone(), digest, size_bytes });
    }
    Ok((model, files, facts))
}

/// What a model says of itself, if it may be served at all: the scan of its file, and that the weights beside it are there.
/// Nothing is loaded.
pub fn scan_file(path: &Path, limits: &ScanLimits) -> Result<ScanFacts, Refusal> {
    let (_, facts) = scanned(path, limits)?;
    for (name, &needs) in &facts.external_data {
        reaches(name, length(&path.with_file_name(name))?, needs)?;
    }
    Ok(facts)
}

fn scanned(path: &Path, limits: &ScanLimits) -> Result<(Vec<u8>, ScanFacts), Refusal> {
    limits.file(length(path)?)?;
    let bytes = std::fs::read(path).map_err(|cause| unreadable(path, cause))?;
    let facts = ScanFacts::of(&bytes, limits)?;
    Ok((bytes, facts))
}

fn read_verified(path: &Path, wanted: &Digest) -> Result<Vec<u8>, Refusal> {
    length(path)?;
    let bytes = std::fs::read(path).map_err(|cause| unreadable(path, cause))?;
    let is = Digest::of(&bytes);
    if is == *wanted {
        return Ok(bytes);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Err(Refusal::WrongDigest { name, is, wanted: *wanted })
}

/// Of a plain file: opening a pipe would wait for whoever fills it, and a device may have no end.
fn length(path: &Path) -> Result<u64, Refusal> {
    let metadata = path.metadata().map_err(|cause| unreadable(path, cause))?;
    if metadata.is_file() { Ok(metadata.len()) } else { Err(Refusal::NotAFile(path.to_owned())) }
}

fn reaches(name: &str, has: u64, needs: u64) -> Result<(), Refusal> {
    if has >= needs {
        return Ok(());
    }
    Err(Refusal::ExternalDataShort { name: name.to_owned(), has, needs })
}

fn unreadable(path: &Path, cause: std::io::Error) -> Refusal {
    Refusal::Unreadable { path: path.to_owned(), cause }
}
