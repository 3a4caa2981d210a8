//! The fingerprint of a machine, for decision records: whatever may change a run's result. The engines, their threads, the CPU and
//! its features. A replay reports a different fingerprint.

use flyball_core::Digest;
use flyball_engine::{INTER_THREADS, INTRA_THREADS, PROVIDER, Runtime, TREES};
use flyball_plane::Build;
use serde_json::json;

/// JSON with its digest, which records refer to.
#[derive(Debug)]
pub struct Fingerprint {
    pub json: Vec<u8>,
    pub digest: Digest,
}

impl Fingerprint {
    pub fn new(runtime: &Runtime, build: Build) -> Fingerprint {
        let (cpu, cpu_features) = cpu();
        let json = json!({
            "onnxruntime": runtime.version(),
            "provider": PROVIDER,
            "trees": TREES,
            "intra_threads": INTRA_THREADS,
            "inter_threads": INTER_THREADS,
            "arch": std::env::consts::ARCH,
            "os": std::env::consts::OS,
            "cpu": cpu,
            "cpu_features": cpu_features,
            "flyball": build.version,
            "commit": build.commit,
        });
        let json = json.to_string().into_bytes();
        Fingerprint { digest: Digest::of(&json), json }
    }
}

/// Features read from the kernel, because Rust cannot detect them yet.
const BY_KERNEL: [&str; 3] = ["amx_tile", "amx_int8", "amx_bf16"];

/// The kernel's name of the CPU, and its features.
fn cpu() -> (Option<String>, Vec<&'static str>) {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut find = |key| lines.find(|(named, _)| named.trim() == key).map(|(_, value)| value.trim());
    let name = find("model name").map(str::to_owned);
    let flags = find("flags").unwrap_or_default();
    let mut features = cpu_features();
    features.extend(BY_KERNEL.into_iter().filter(|flag| flags.split(' ').any(|has| has == *flag)));
    (name, features)
}

macro_rules! detected {
    ($detect:ident, $($feature:tt),* $(,)?) => {
        [$(($feature, std::arch::$detect!($feature))),*]
            .into_iter().filter(|(_, has)| *has).map(|(feature, _)| feature).collect()
    };
}

/// The features that ONNX Runtime selects kernels by.
#[cfg(target_arch = "x86_64")]
fn cpu_features() -> Vec<&'static str> {
    detected!(
        is_x86_feature_detected,
        "sse4.1",
        "sse4.2",
        "avx",
        "avx2",
        "fma",
        "f16c",
        "avxvnni",
        "avx512f",
        "avx512bw",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16",
        "avx512fp16",
    )
}

#[cfg(target_arch = "aarch64")]
fn cpu_features() -> Vec<&'static str> {
    detected!(is_aarch64_feature_detected, "neon", "fp16", "dotprod", "i8mm", "bf16", "sve", "sve2")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cpu_features() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_the_cpu_are_named_once_and_are_those_that_it_has() {
        let features = cpu_features();
        let mut once = features.clone();
        once.dedup();
        assert_eq!(features, once);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(features.contains(&"avx2"), std::arch::is_x86_feature_detected!("avx2"));
    }
}
