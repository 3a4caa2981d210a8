//! A model's bytes: read once, verified by digest, and used from memory.
//!
//! What was verified is what runs, whatever happens to the files meanwhile.

use crate::plain_file::PlainFile;
use crate::{MemoryBudget, Refusal, ScanFacts, ScanLimits, optional};
use flyball_core::{Digest, Tensor, snapshot};
use serde::Serialize;
use std::fs::OpenOptions;
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
    /// The inputs that clients may leave out, with their elements then.
    pub defaults: Vec<Tensor>,
}

impl Artifact {
    /// Reads the files that the snapshot names, and rejects any difference.
    ///
    /// Relative paths start from `base`. A model that does not fit into memory is rejected before it is read.
    pub fn read(wanted: &snapshot::Artifact, base: &Path, memory: MemoryBudget) -> Result<Artifact, Refusal> {
        let path = base.join(&wanted.path);
        let limits = ScanLimits::default();
        let opened = PlainFile::open(&path)?;
        limits.file(opened.size_bytes)?;
        let beside = wanted.external_data.iter().map(|file| PlainFile::open_sibling(&path, &file.name));
        let beside = beside.filter_map(Result::ok).map(|file| file.size_bytes).sum::<u64>();
        memory.room_for(opened.size_bytes.saturating_add(beside))?;
        let model = verified(opened, &file_name(&path), &wanted.digest)?;
        let facts = ScanFacts::of(&model, &limits)?;
        let (model, defaults) = optional::take(model, &wanted.optional_inputs)?;
        // Its operators may read what was a constant before.
        let facts = if defaults.is_empty() { facts } else { ScanFacts::of(&model, &limits)? };
        let mut external_data = Vec::with_capacity(facts.external_data.len());
        for (name, &needs) in &facts.external_data {
            let listed = wanted.external_data.iter().find(|file| file.name == *name);
            let listed = listed.ok_or_else(|| Refusal::ExternalDataUnlisted(name.clone()))?;
            let opened = open_external(&path, name, needs)?;
            external_data.push((name.clone(), verified(opened, name, &listed.digest)?.into()));
        }
        Ok(Artifact { digest: wanted.digest, facts, model, external_data, defaults })
    }

    /// Reads a model without expected digests, for `inspect`: there is no snapshot yet.
    pub fn read_unverified(path: &Path) -> Result<Artifact, Refusal> {
        let (model, files, _facts) = digest_files(path)?;
        let listed =
            files.into_iter().map(|file| snapshot::ExternalData { name: file.name, digest: file.digest });
        let wanted = snapshot::Artifact {
            path: path.to_string_lossy().into_owned(),
            digest: model.digest,
            external_data: listed.collect(),
            optional_inputs: Vec::new(),
        };
        Artifact::read(&wanted, Path::new(""), MemoryBudget::UNLIMITED)
    }

    pub fn size_bytes(&self) -> u64 {
        let external: usize = self.external_data.iter().map(|(_, bytes)| bytes.len()).sum();
        (self.model.len() + external) as u64
    }
}

/// The digests that a snapshot must list for a model and its external data, and the model's scan facts.
pub fn digest_files(path: &Path) -> Result<(ArtifactFile, Vec<ArtifactFile>, ScanFacts), Refusal> {
    let (bytes, facts) = scanned(path, &ScanLimits::default())?;
    let model =
        ArtifactFile { name: file_name(path), digest: Digest::of(&bytes), size_bytes: bytes.len() as u64 };
    let mut files = Vec::new();
    for (name, &needs) in &facts.external_data {
        let opened = open_external(path, name, needs)?;
        let digest = Digest::of_reader(opened.pieces()).map_err(|cause| opened.unreadable(cause))?;
        files.push(ArtifactFile { name: name.clone(), digest, size_bytes: opened.size_bytes });
    }
    Ok((model, files, facts))
}

/// Scans a model's file and checks that its external weights exist. Loads nothing.
pub fn scan_file(path: &Path, limits: &ScanLimits) -> Result<ScanFacts, Refusal> {
    let (_, facts) = scanned(path, limits)?;
    for (name, &needs) in &facts.external_data {
        open_external(path, name, needs)?;
    }
    Ok(facts)
}

/// Copies an external data file of a model with the same checks as a load. Replaces `target`.
pub fn copy_sibling(model: &Path, name: &str, target: &Path) -> Result<(), Refusal> {
    let opened = PlainFile::open_sibling(model, name)?;
    let unwritable = |cause| Refusal::Unwritable { path: target.to_owned(), cause };
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(target);
    std::io::copy(&mut opened.pieces(), &mut file.map_err(unwritable)?).map_err(unwritable)?;
    Ok(())
}

fn scanned(path: &Path, limits: &ScanLimits) -> Result<(Vec<u8>, ScanFacts), Refusal> {
    let opened = PlainFile::open(path)?;
    limits.file(opened.size_bytes)?;
    let bytes = opened.read()?;
    let facts = ScanFacts::of(&bytes, limits)?;
    Ok((bytes, facts))
}

fn verified(opened: PlainFile, name: &str, wanted: &Digest) -> Result<Vec<u8>, Refusal> {
    let bytes = opened.read()?;
    let is = Digest::of(&bytes);
    if is == *wanted {
        return Ok(bytes);
    }
    Err(Refusal::WrongDigest { name: name.to_owned(), is, wanted: *wanted })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Opens an external data file, which must have the bytes that the model needs of it.
fn open_external(model: &Path, name: &str, needs: u64) -> Result<PlainFile, Refusal> {
    let opened = PlainFile::open_sibling(model, name)?;
    let has = opened.size_bytes;
    if has >= needs {
        return Ok(opened);
    }
    Err(Refusal::ExternalDataShort { name: name.to_owned(), has, needs })
}
