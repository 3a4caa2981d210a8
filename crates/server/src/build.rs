//! What this build is: shown by `--version`, `/metrics` and the benchmark's record, which refuses a debug build.

use serde::Serialize;

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
        profile: if cfg!(debug_assertions) { "dev" } else { "release" },
        target: env!("FLYBALL_TARGET"),
        rustc: env!("FLYBALL_RUSTC"),
        debug_assertions: cfg!(debug_assertions),
    }
}
