//! Tells the build what made it: the compiler and the target, for `--version` and the benchmark's record.
#![forbid(unsafe_code)]

use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let version = version.split_whitespace().nth(1).unwrap_or("unknown").to_owned();
    println!("cargo::rustc-env=FLYBALL_RUSTC={version}");
    println!("cargo::rustc-env=FLYBALL_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
}
