//! Build information for `--version`, `/metrics` and benchmark records, which refuse debug builds.

use flyball_deployments::Fingerprint;
use flyball_engine::{LibraryError, Runtime};
use flyball_plane::Build;
use serde::Serialize;
use std::path::Path;

#[derive(Clone, Copy, Debug, Serialize)]
pub struct BuildInfo {
    pub version: &'static str,
    pub commit: &'static str,
    pub profile: &'static str,
    pub target: &'static str,
    pub rustc: &'static str,
    pub debug_assertions: bool,
}

pub const fn build_info() -> BuildInfo {
    const COMMIT: &str = match option_env!("FLYBALL_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    };
    BuildInfo {
        version: env!("CARGO_PKG_VERSION"),
        commit: COMMIT,
        profile: env!("FLYBALL_PROFILE"),
        target: env!("FLYBALL_TARGET"),
        rustc: env!("FLYBALL_RUSTC"),
        debug_assertions: cfg!(debug_assertions),
    }
}

/// The fingerprint that decision records made here would have, as JSON.
pub fn runtime_fingerprint(library: &Path) -> Result<Vec<u8>, LibraryError> {
    let build = build_info();
    let build = Build { version: build.version, commit: build.commit };
    Ok(Fingerprint::new(&Runtime::open(library)?, build).json)
}
