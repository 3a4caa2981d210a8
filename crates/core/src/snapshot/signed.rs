//! A snapshot's origin, and the signatures and candidate of a deployment.
//!
//! Signatures are only carried here, as JSON objects; the `signing` crate verifies them.

use super::Version;
use crate::Digest;
use serde::Deserialize;
use serde_json::Value;

/// The end of a registry's event chain when a snapshot was compiled.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    pub sequence: u64,
    pub hash: Digest,
}

/// A registry version with its signatures and approvals.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    pub name: String,
    pub version: u64,
    /// Its own packages and those of the versions that it references.
    pub packages: Vec<Package>,
    /// The release statement: a DSSE envelope.
    pub release: Value,
}

/// A directory of files that is signed as a whole. It contains every model of the deployment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    pub name: String,
    pub version: u64,
    /// Relative to the index's directory, or absolute.
    pub folder: String,
    /// The OpenSSF Model Signing bundle over the directory's files.
    pub bundle: Value,
}

/// A version that may replace the deployment's, tested on some of its requests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// The share of requests, from 0 to 1.
    pub share: f64,
    /// The candidate runs and is recorded, but does not answer callers.
    pub shadow: bool,
    /// The whole decision document, if the deployment has one.
    pub decision: Option<Value>,
    pub signed: Option<Signed>,
    /// Its models, in addition to the deployment's: no number is in both.
    pub versions: Vec<Version>,
}
