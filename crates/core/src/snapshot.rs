//! The Snapshot, the only contract between the planes: an index (`name → digest`) and one document for each
//! deployment. Documents only: what runs is `Loaded`, in the plane.
//!
//! Reading is in two steps: `check` finds every fault of a document at once, with path and what was allowed; only a
//! document without faults becomes the typed value. `python/flyball/snapshot` is the other reader; golden files under
//! `tests/golden/snapshot` hold the two together.

mod check;
mod source;
mod strict;

use crate::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

pub use source::{Bundle, SourceError};

/// The format that this build writes. It reads this one and the one before.
pub const FORMAT: u64 = 1;
/// The oldest format that is still read: `FORMAT - 1`, but there is none before the first.
pub const FORMAT_OLDEST: u64 = if FORMAT > 1 { FORMAT - 1 } else { 1 };

pub const DEPLOYMENTS_MAX: usize = 1000;
pub const VERSIONS_MAX: usize = 16;
pub const GENERATION_MAX: u64 = (1 << 53) - 1;
pub const IN_FLIGHT_MAX: u64 = 65_536;
pub const BATCH_ROWS_MAX: u64 = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    pub format: u64,
    pub generation: u64,
    pub deployments: Vec<IndexEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexEntry {
    pub name: String,
    pub digest: Digest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    pub format: u64,
    pub name: String,
    pub route: Route,
    pub versions: Vec<Version>,
    #[serde(default)]
    pub limits: Limits,
}

/// Which version answers callers who name none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    pub version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    pub version: String,
    pub artifact: Artifact,
}

/// A model's bytes: where they are, and what they must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    pub path: String,
    pub digest: Digest,
    #[serde(default)]
    pub external_data: Vec<ExternalData>,
}

/// A file beside the model that holds some of its weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalData {
    pub name: String,
    pub digest: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub in_flight_max: u32,
    pub batch_rows_max: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { in_flight_max: 1024, batch_rows_max: 64 }
    }
}

/// One fault of a document: where, what stands there, and what may stand there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SnapshotFault {
    pub path: String,
    pub is: Value,
    pub allowed: String,
}

impl fmt::Display for SnapshotFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the document" } else { &self.path };
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

/// A document of the Snapshot: it knows how to check itself.
pub trait Document: Sized + for<'de> Deserialize<'de> {
    fn check(value: &Value) -> Vec<SnapshotFault>;

    fn read(bytes: &[u8]) -> Result<Self, SnapshotFaults> {
        let whole = |text: String| {
            SnapshotFaults(vec![SnapshotFault { path: String::new(), is: Value::Null, allowed: text }])
        };
        let value = strict::parse(bytes).map_err(|error| whole(format!("JSON, but: {error}")))?;
        let faults = Self::check(&value);
        if !faults.is_empty() {
            return Err(SnapshotFaults(faults));
        }
        // The check is the stricter of the two; a fault that only serde sees is still a refusal, never a panic.
        serde_json::from_value(value).map_err(|error| whole(error.to_string()))
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

#[cfg(test)]
mod tests;
