//! Where a snapshot comes from, what says that a deployment may be served, and what is tried beside it.
//! Signatures are carried here and judged elsewhere: that bundles and releases are objects is all that is known of them.

use super::Version;
use crate::Digest;
use serde::Deserialize;
use serde_json::Value;

/// The end of a registry's chain of events when a snapshot was compiled.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    pub sequence: u64,
    pub hash: Digest,
}

/// A version of a registry, with what its signers and approvers said about it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    pub name: String,
    pub version: u64,
    /// Its own, and those of the versions that it refers to.
    pub packages: Vec<Package>,
    /// The release statement: a DSSE envelope.
    pub release: Value,
}

/// A folder of files that is signed as a whole. Every model of the deployment lies in one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    pub name: String,
    pub version: u64,
    /// Relative to the index's folder, or absolute.
    pub folder: String,
    /// The OpenSSF Model Signing bundle over the folder's files.
    pub bundle: Value,
}

/// A version that is to replace the deployment's, tried on some of its requests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// Of the requests, from 0 to 1.
    pub share: f64,
    /// It is run and recorded, and answers nobody.
    pub shadow: bool,
    /// The whole document, where the deployment decides.
    #[serde(default)]
    pub decision: Option<Value>,
    #[serde(default)]
    pub signed: Option<Signed>,
    /// Its models, beside those of the deployment: no number stands in both.
    pub versions: Vec<Version>,
}
