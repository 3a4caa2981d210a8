//! Whether a version may be served: its release, then each package with its directory, then models and documents.
//!
//! Checks in the order of a server's load (`flyball-deployments`), for a promotion or an import before it.

use crate::{Refused, Release, Trust};
use flyball_core::Digest;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A deployment to check, with its release and packages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployed {
    pub name: String,
    pub environment: String,
    /// By version, each with its external data.
    pub models: BTreeMap<String, Digest>,
    pub decision: Option<Digest>,
    pub policy: Option<Digest>,
    pub schema: Option<Digest>,
    /// The release's envelope.
    pub release: Option<String>,
    pub packages: Vec<OfferedPackage>,
}

/// A package (`fraud@4`), its directory, and the bundle that claims to sign it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferedPackage {
    pub name: String,
    pub folder: PathBuf,
    pub bundle: Option<String>,
}

impl Trust {
    /// The release that allows this deployment, or the first reason against it.
    pub fn admit(&self, deployed: &Deployed, now: i64) -> Result<Release, Refused> {
        let unsigned = |what: &str| Refused::Unsigned { what: what.to_owned() };
        let release = deployed.release.as_ref().ok_or_else(|| unsigned(&deployed.name))?;
        let release = self.release(release.as_bytes(), now, &deployed.environment)?;
        release.check_name(&deployed.name)?;
        for package in &deployed.packages {
            let bundle = package.bundle.as_ref().ok_or_else(|| unsigned(&package.name))?;
            let manifest = self.package(bundle.as_bytes(), now)?;
            release.check_package(&package.name, manifest.root)?;
            manifest.check_folder(&package.folder)?;
        }
        release.check_models(&deployed.models)?;
        release.check_documents(deployed.decision, deployed.policy, deployed.schema)?;
        Ok(release)
    }
}
