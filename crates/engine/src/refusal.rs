//! Why a model is rejected. Each reason states what was found and how to fix it.

use crate::{HostError, ScanRefusal};
use flyball_core::Digest;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("cannot read {path}: {cause}", path = path.display())]
    Unreadable { path: PathBuf, cause: std::io::Error },
    #[error("cannot write {path}: {cause}", path = path.display())]
    Unwritable { path: PathBuf, cause: std::io::Error },
    #[error(
        "{name} is {is}, but the snapshot requires {wanted}: the file changed since the snapshot was compiled"
    )]
    WrongDigest { name: String, is: Digest, wanted: Digest },
    #[error("{path} is not a plain file: give the model's own .onnx file", path = .0.display())]
    NotAFile(PathBuf),
    #[error(
        "{path} is a link, but a model's external data must be a plain file in the model's folder: replace the link by \
         its target (cp --remove-destination \"$(realpath FILE)\" FILE)", path = .0.display()
    )]
    ExternalDataLink(PathBuf),
    #[error("{path} changed while it was read: try again when no process writes to it", path = .0.display())]
    Changing(PathBuf),
    #[error(transparent)]
    Scan(#[from] ScanRefusal),
    #[error(
        "the model uses external data '{0}', which is not listed with a digest: compile the snapshot again"
    )]
    ExternalDataUnlisted(String),
    #[error(
        "external data '{name}' has {has} bytes, but the model's weights reach to byte {needs}: save model and weights \
         together again"
    )]
    ExternalDataShort { name: String, has: u64, needs: u64 },
    #[error(
        "output '{0}' is a sequence of maps (ZipMap): convert again with \
         options={{id(model): {{'zipmap': False}}}} (skl2onnx) or zipmap=False (onnxmltools)"
    )]
    ZipMap(String),
    #[error("{role} '{name}' has type {found}, which the V2 protocol does not support: {advice}")]
    UnsupportedType { role: &'static str, name: String, found: String, advice: &'static str },
    /// The deployment's shapes for clients do not fit.
    #[error("{0}: correct the deployment's shapes, or export the model again")]
    Shapes(String),
    #[error("{0}: leave 'optional' out of the configuration, or export the model again")]
    Default(String),
    #[error("the model uses an operator that this ONNX Runtime does not have: {0}")]
    UnknownOp(String),
    #[error(
        "the model's opset is newer than this ONNX Runtime: {0}; export it with an older opset or upgrade onnxruntime"
    )]
    OpsetTooNew(String),
    #[error(
        "loading it takes {} MiB or more, {} MiB are in use and {} MiB are allowed: give the server more memory, \
         raise memory_bytes_max, or remove a model first", .needs >> 20, .used >> 20, .bytes_max >> 20
    )]
    OutOfMemory { needs: u64, used: u64, bytes_max: u64 },
    #[error("ONNX Runtime refused the model: {0}")]
    Runtime(String),
    #[error(
        "the probe did not end within {ms_max} ms (probe_ms_max): the model may loop without end; end its loops, or raise \
         probe_ms_max if it is only slow"
    )]
    ProbeTime { ms_max: u128 },
    #[error(
        "the probe took more than {} MiB of memory (probe_memory_bytes_max): give its tensors sizes that do not grow with \
         the values of its input, raise probe_memory_bytes_max, or give the server more memory", .bytes_max >> 20
    )]
    ProbeMemory { bytes_max: u64 },
    /// The error of a model host, or how the host ended.
    #[error("{0}")]
    Host(String),
    /// Not the model's fault: the server no longer waits for it.
    #[error("the server is leaving")]
    Leaving,
}

impl Refusal {
    /// A host that did not respond.
    pub(crate) fn of_host(error: HostError) -> Refusal {
        match error {
            HostError::Leaving => Refusal::Leaving,
            HostError::Ended(_) => {
                Refusal::Host(format!("{error}; the model may have crashed it, or memory ran out"))
            }
            error => Refusal::Host(error.to_string()),
        }
    }

    /// Classifies ONNX Runtime's errors by the action that fixes them.
    pub(crate) fn from_ort(error: &ort::Error) -> Refusal {
        let text = one_line(error.message());
        let has = |part: &str| text.contains(part);
        if has("is under development")
            || has("max supported opset")
            || has("IR version") && has("max supported")
        {
            Refusal::OpsetTooNew(text)
        } else if has("is not a registered function/op") || has("No Op registered") || has("No opset import")
        {
            Refusal::UnknownOp(text)
        } else {
            Refusal::Runtime(text)
        }
    }
}

/// Whether an error text of ONNX Runtime or the allocator is about missing memory.
pub(crate) fn out_of_memory(text: &str) -> bool {
    ["Failed to allocate memory", "bad_alloc", "bad allocation"].iter().any(|words| text.contains(words))
}

/// ONNX Runtime's messages span lines and contain build paths; logs and responses need one bounded line.
pub(crate) fn one_line(text: &str) -> String {
    const LENGTH_MAX: usize = 400;
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > LENGTH_MAX {
        let cut = (0..=LENGTH_MAX).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
        line.truncate(cut);
        line.push('…');
    }
    line
}
