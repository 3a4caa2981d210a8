//! Passes compiler, target and profile to the build, for `--version` and benchmark records.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let version = version.split_whitespace().nth(1).unwrap_or("unknown").to_owned();
    println!("cargo::rustc-env=FLYBALL_RUSTC={version}");
    println!("cargo::rustc-env=FLYBALL_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    println!("cargo::rustc-env=FLYBALL_PROFILE={}", profile());
    println!("cargo::rerun-if-changed=build.rs");
}

/// The name of cargo's profile, which build scripts find only in their output path: `target/PROFILE/build/…/out`.
fn profile() -> String {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let folder =
        out.ancestors().nth(3).and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or("unknown");
    if folder == "debug" { "dev".to_owned() } else { folder.to_owned() }
}
