//! Whether a version may be served: the release first, then each package with its folder, at last models and documents.
//!
//! The order in which a server asks at load (`flyball-plane`), for those who ask before: a promotion, an import.

use crate::{Refused, Release, Trust};
use flyball_core::Digest;
use std::collections::BTreeMap;
use std::path::Path;

/// What is to be served under which name.
#[derive(Debug)]
pub struct Deployed<'a> {
    pub name: &'a str,
    pub environment: &'a str,
    /// By their versions, each with its external data.
    pub models: &'a BTreeMap<String, Digest>,
    pub decision: Option<Digest>,
    pub policy: Option<Digest>,
    pub schema: Option<Digest>,
}

/// A package (`fraud@4`), its folder, and the bundle that is said to sign it.
#[derive(Debug)]
pub struct OfferedPackage<'a> {
    pub name: &'a str,
    pub folder: &'a Path,
    pub bundle: Option<&'a [u8]>,
}

impl Trust {
    /// The release that lets this be served, or the first reason against it.
    pub fn admit(
        &self,
        deployed: &Deployed<'_>,
        release: Option<&[u8]>,
        packages: &[OfferedPackage<'_>],
        now: i64,
    ) -> Result<Release, Refused> {
        let unsigned = |what: &str| Refused::Unsigned { what: what.to_owned() };
        let release = release.ok_or_else(|| unsigned(deployed.name))?;
        let release = self.release(release, now, deployed.environment)?;
        release.check_name(deployed.name)?;
        for package in packages {
            let bundle = package.bundle.ok_or_else(|| unsigned(package.name))?;
            let manifest = self.package(bundle, now)?;
            release.check_package(package.name, manifest.root)?;
            manifest.check_folder(package.folder)?;
        }
        release.check_models(deployed.models)?;
        release.check_documents(deployed.decision, deployed.policy, deployed.schema)?;
        Ok(release)
    }
}
