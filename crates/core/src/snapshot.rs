//! The Snapshot, the only contract between the planes: an index (`name → digest`) and one document for each deployment.
//!
//! Documents are only read here; Python compiles them. What runs is `Loaded`, in the plane. Reading has two steps:
//! `check` finds every fault of a document at once, with its path and the allowed values; only a document without
//! faults becomes the typed value. Python checks documents with this code too (`check_document`); golden files under
//! `tests/golden/snapshot` state the faults.

mod check;
mod signed;
mod source;
mod strict;

use crate::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;

pub use check::{is_valid_name, is_valid_version};
pub use signed::{Candidate, Checkpoint, Package, Signed};
pub use source::{Bundle, SIGNATURE_FILE, SourceError};
pub use strict::parse as strict_json;

/// The format that this build reads. Readers reject unknown keys, so a new key needs a new number.
pub const FORMAT: u64 = 1;

pub const DEPLOYMENTS_MAX: usize = 1000;
/// Limits of a model that is listed and not served, in characters. Its name may be any folder's.
pub const UNAVAILABLE_NAME_MAX: usize = 255;
pub const UNAVAILABLE_REASON_MAX: usize = 4096;
pub const VERSIONS_MAX: usize = 16;
pub const GENERATION_MAX: u64 = (1 << 53) - 1;
pub const IN_FLIGHT_MAX: u64 = 65_536;
pub const BATCH_ROWS_MAX: u64 = 1024;
pub const CONCURRENCY_MAX: u64 = 256;
pub const SHARE_MAX: u64 = 10_000;
/// The longest wait, run or deadline that a document may set: ten minutes.
pub const TIME_MS_MAX: u64 = 600_000;
/// The shortest run limit: the watchdog does not check more often.
pub const RUN_MS_MIN: u64 = 10;
pub const WINDOW_MS_MAX: u64 = 1000;
/// Limits of labels: outputs of a deployment, labels of an output, characters of a label.
pub const LABELLED_OUTPUTS_MAX: usize = 64;
pub const LABELS_MAX: usize = 65_536;
pub const LABEL_CHARACTERS_MAX: usize = 256;
/// Limits of clients' shapes: tensors of a deployment, axes of a tensor.
pub const SHAPES_MAX: usize = 256;
pub const RANK_MAX: usize = 16;
/// Maximum packages of one release: its own and the referenced ones.
pub const PACKAGES_MAX: usize = 16;
/// The highest version number.
pub const VERSION_NUMBER_MAX: u64 = 999_999_999;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    pub format: u64,
    pub generation: u64,
    pub deployments: Vec<IndexEntry>,
    /// The last event of the registry that the snapshot was compiled from.
    pub registry: Option<Checkpoint>,
    /// The environment it was compiled for. A server of another environment rejects it.
    pub environment: Option<String>,
    /// Models that the compiler knows and that are not among the deployments.
    #[serde(default)]
    pub unavailable: Vec<Unavailable>,
}

/// A model that is listed and not served.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unavailable {
    pub name: String,
    /// Why it cannot be served; empty if nobody has loaded it.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexEntry {
    pub name: String,
    pub digest: Digest,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    pub format: u64,
    pub name: String,
    pub route: Route,
    pub versions: Vec<Version>,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub slo: Slo,
    /// None: batch the requests that are ready and never wait for more.
    pub batch: Option<BatchWait>,
    /// The class names of an output, in the order of its elements.
    #[serde(default)]
    pub labels: HashMap<String, Vec<String>>,
    /// The shapes of inputs and outputs for clients, where they differ from the model's.
    #[serde(default)]
    pub shapes: HashMap<String, ClientShape>,
    /// The decision document; none serves the models directly. Only its type (an object) is checked here; the
    /// `decision` crate validates it.
    pub decision: Option<Value>,
    /// The signatures and approvals; none for an unsigned deployment.
    pub signed: Option<Signed>,
    /// The candidate that is tested on part of the traffic.
    pub candidate: Option<Candidate>,
}

/// The version for callers who name none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    pub version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    pub version: String,
    pub artifact: Artifact,
}

/// A model's file and its expected digest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    pub path: String,
    pub digest: Digest,
    #[serde(default)]
    pub external_data: Vec<ExternalData>,
    /// Inputs that are also constants of the model: clients may leave them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional_inputs: Vec<String>,
}

impl Artifact {
    /// The digest over all loaded bytes.
    ///
    /// The file's own digest if it has no external data; else, as OMS computes a package's root, over the raw
    /// digests of the file and of its external data in name order. A release identifies models by this:
    /// graphs are often equal while their weights differ.
    pub fn digest_with_data(&self) -> Digest {
        if self.external_data.is_empty() {
            return self.digest;
        }
        let mut data: Vec<&ExternalData> = self.external_data.iter().collect();
        data.sort_by(|one, other| one.name.cmp(&other.name));
        let mut digests = self.digest.bytes().to_vec();
        data.iter().for_each(|file| digests.extend_from_slice(file.digest.bytes()));
        Digest::of(&digests)
    }
}

/// A file next to the model with some of its weights.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalData {
    pub name: String,
    pub digest: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub in_flight_max: u32,
    /// 1: requests are not batched. 0: nor does the first axis count rows.
    pub batch_rows_max: u32,
    /// Concurrent runs of one version, never more than lanes.
    pub concurrency_max: u32,
    /// A request with a longer expected wait is rejected at admission, in milliseconds.
    pub queue_wait_ms_max: u32,
    /// A run that takes longer is stopped, in milliseconds.
    pub run_ms_max: u32,
    /// The relative share of a lane's time when several models compete.
    pub share: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            in_flight_max: 1024,
            batch_rows_max: 64,
            concurrency_max: 256,
            queue_wait_ms_max: 1000,
            run_ms_max: 10_000,
            share: 100,
        }
    }
}

/// The service level for callers who specify none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Slo {
    /// The deadline of requests without one, in milliseconds.
    pub deadline_ms: Option<u32>,
}

/// Wait up to `window_ms` for `size` rows before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchWait {
    pub size: u32,
    pub window_ms: u32,
}

/// A tensor's shape for clients, and for the model. Both have the same elements and as many free axes (-1).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientShape {
    pub client: Vec<i64>,
    pub model: Vec<i64>,
    pub layout: Option<Layout>,
}

/// The order of an image's axes. Clients read it from the model's configuration; it changes no element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Layout {
    #[serde(rename = "NCHW")]
    Nchw,
    #[serde(rename = "NHWC")]
    Nhwc,
}

/// One fault of a document: path, value (null: none, or not helpful) and allowed values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SnapshotFault {
    pub path: String,
    pub is: Value,
    pub allowed: String,
}

impl fmt::Display for SnapshotFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the document" } else { &self.path };
        if self.is.is_null() {
            return write!(f, "{path}: {}", self.allowed);
        }
        let mut is = self.is.to_string();
        if is.len() > 60 {
            let cut = (0..=57).rev().find(|&at| is.is_char_boundary(at)).unwrap_or(0);
            is.truncate(cut);
            is.push('…');
        }
        write!(f, "{path} is {is}; allowed: {}", self.allowed)
    }
}

/// Every fault of a document, never just the first.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotFaults(pub Vec<SnapshotFault>);

impl fmt::Display for SnapshotFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, fault) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SnapshotFaults {}

/// A document of the Snapshot that can check itself.
pub trait Document: Sized + for<'de> Deserialize<'de> {
    fn check(value: &Value) -> Vec<SnapshotFault>;

    fn read(bytes: &[u8]) -> Result<Self, SnapshotFaults> {
        let value = parsed(bytes).map_err(|fault| SnapshotFaults(vec![fault]))?;
        let faults = Self::check(&value);
        if !faults.is_empty() {
            return Err(SnapshotFaults(faults));
        }
        // The check is the stricter of the two; a fault that only serde sees is still a refusal, never a panic.
        serde_json::from_value(value).map_err(|error| SnapshotFaults(vec![whole(error.to_string())]))
    }
}

impl Document for Index {
    fn check(value: &Value) -> Vec<SnapshotFault> {
        check::index(value)
    }
}

impl Document for Deployment {
    fn check(value: &Value) -> Vec<SnapshotFault> {
        check::deployment(value)
    }
}

/// All faults of a document's bytes, sorted by path; `None`: there is no such kind of document.
pub fn check_document(kind: &str, bytes: &[u8]) -> Option<Vec<SnapshotFault>> {
    let check = match kind {
        "index" => check::index,
        "deployment" => check::deployment,
        "terms" => check::terms,
        _ => return None,
    };
    let mut faults = parsed(bytes).map_or_else(|fault| vec![fault], |value| check(&value));
    faults.sort_by(|one, other| one.path.cmp(&other.path));
    Some(faults)
}

fn parsed(bytes: &[u8]) -> Result<Value, SnapshotFault> {
    strict::parse(bytes).map_err(|error| whole(format!("JSON, but: {error}")))
}

fn whole(allowed: String) -> SnapshotFault {
    SnapshotFault { path: String::new(), is: Value::Null, allowed }
}

#[cfg(test)]
mod tests;
